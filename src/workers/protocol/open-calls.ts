import { fromWireError, type WireError } from './wire-error.ts'

/** A question to another process. @typeParam State what its caller keeps with it */
export type OpenCall<Value, State> = PromiseWithResolvers<Value> & {
  readonly id: number
  readonly state: State
}

/** As messages carry it. */
export interface Answer {
  id: number
  value: unknown
  error: WireError | undefined
}

/** The questions that another process has not answered yet, in their order. One that is settled is forgotten. */
export class OpenCalls<Value, State = undefined> {
  readonly #open = new Map<number, OpenCall<Value, State>>()
  #ids = 0

  /** A question whose rejection nobody waits for is not unhandled. */
  begin(state: State): OpenCall<Value, State> {
    const call = { ...Promise.withResolvers<Value>(), id: ++this.#ids, state }
    this.#open.set(call.id, call)
    const forget = () => void this.#open.delete(call.id)
    call.promise.then(forget, forget)
    return call
  }

  get size(): number {
    return this.#open.size
  }

  get(id: number): OpenCall<Value, State> | undefined {
    return this.#open.get(id)
  }

  [Symbol.iterator](): Iterator<OpenCall<Value, State>> {
    return this.#open.values()
  }

  settle({ id, value, error }: Answer): void {
    const call = this.#open.get(id)
    if (error === undefined) call?.resolve(value as Value)
    else call?.reject(fromWireError(error))
  }

  rejectAll(error: Error): void {
    for (const { reject } of this.#open.values()) reject(error)
  }
}
