import { CellError } from '../errors.ts'

/** What is no promise. */
export type NoPromise =
  // biome-ignore lint/suspicious/noConfusingVoidType: a function without a return is one that returns no promise
  void | null | undefined | string | number | bigint | boolean | symbol | (object & { readonly then?: never })

/** Refuses what cannot be work of a transaction before any of it runs. @throws `invalid_request` */
export function checkWork(work: () => unknown): void {
  if (typeof work !== 'function') {
    throw new CellError('invalid_request', 'The work of a transaction must be a function.', { field: 'work' })
  }
  if (work instanceof AsyncFunction) throw asyncWork()
}

const AsyncFunction = (async () => {}).constructor as FunctionConstructor

/** @throws `invalid_request` for the result of an async function */
export function refusePromise<T>(value: T): T {
  if (value === null || typeof value !== 'object' || !('then' in value)) return value
  if (typeof value.then !== 'function') return value
  // If it rejects, nobody else handles that.
  value.then(undefined, () => {})
  throw asyncWork()
}

function asyncWork(): CellError {
  return new CellError(
    'invalid_request',
    'A transaction ends when its function returns, so the function must not be async.',
  )
}
