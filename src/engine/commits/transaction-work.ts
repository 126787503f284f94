import { types } from 'node:util'
import { CellError } from '../../errors.ts'

/** What has ended when it is returned: no promise, and no generator. */
export type NoPromise =
  // biome-ignore lint/suspicious/noConfusingVoidType: a function without a return is one that returns no promise
  | void
  | null
  | undefined
  | string
  | number
  | bigint
  | boolean
  | symbol
  | (object & { readonly then?: never; readonly throw?: never })

/** Of functions that run later than they are called; also those of another realm. */
const LATE_FUNCTIONS: ReadonlySet<string> = new Set([
  '[object AsyncFunction]',
  '[object GeneratorFunction]',
  '[object AsyncGeneratorFunction]',
])

/** Refuses what cannot be work of a transaction before any of it runs. @throws `invalid_request` */
export function checkWork(work: unknown, field = 'work'): void {
  if (typeof work !== 'function') {
    throw new CellError('invalid_request', 'The work of a transaction must be a function.', { field })
  }
  if (LATE_FUNCTIONS.has(Object.prototype.toString.call(work))) throw lateWork(field)
}

/** @throws `invalid_request` for a result of work that has not ended: a promise, or an iterator */
export function refuseLate<T>(value: T): T {
  if (isLate(value)) throw lateWork('work')
  return value
}

/** Whether a value is a promise or an iterator: what made it goes on later. If a promise rejects, nobody need handle that. */
export function isLate(value: unknown): boolean {
  if (value === null || (typeof value !== 'object' && typeof value !== 'function')) return false
  if ('next' in value && typeof value.next === 'function') return true
  // Of no other thenable: a query of some builders runs with its then().
  if (types.isPromise(value)) value.catch(() => {})
  return 'then' in value && typeof value.then === 'function'
}

function lateWork(field: string): CellError {
  return new CellError(
    'invalid_request',
    `A transaction ends when its function returns, so ${field} must not be async or a generator, nor return a promise or an iterator.`,
    { field },
  )
}
