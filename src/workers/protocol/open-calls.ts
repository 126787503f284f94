import { fromWireError, type WireError } from './wire-error.ts'

/** A question to another process. @typeParam About what its caller keeps of it */
export type OpenCall<Value, About> = PromiseWithResolvers<Value> & {
  readonly id: number
  readonly about: About
}

/** As messages carry it. */
export interface Answer {
  id: number
  value: unknown
  error: WireError | undefined
}

/** The questions that another process has not answered yet, in their order. One that is settled is forgotten. */
export class OpenCalls<Value, About = undefined> {
  readonly #open = new Map<number, OpenCall<Value, About>>()
  #ids = 0

  /** A question whose rejection nobody waits for is not unhandled. */
  begin(about: About): OpenCall<Value, About> {
    const call = { ...Promise.withResolvers<Value>(), id: ++this.#ids, about }
    this.#open.set(call.id, call)
    const forget = () => void this.#open.delete(call.id)
    call.promise.then(forget, forget)
    return call
  }

  get size(): number {
    return this.#open.size
  }

  get(id: number): OpenCall<Value, About> | undefined {
    return this.#open.get(id)
  }

  [Symbol.iterator](): Iterator<OpenCall<Value, About>> {
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
