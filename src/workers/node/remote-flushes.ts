import type { Flushed } from '../../backup/shipping/shipper.ts'
import { unlessAborted } from '../../base/unless-aborted.ts'
import { fromWireError, type WireError } from '../protocol/wire-error.ts'

/** Flushes that the archiver has not answered. Another archiver gets them all: its look at the cells is a later one. */
export class RemoteFlushes {
  readonly #send: (id: number) => void
  readonly #open = new Map<number, PromiseWithResolvers<Flushed>>()
  #ids = 0

  /** @param send does nothing as long as there is no archiver */
  constructor(send: (id: number) => void) {
    this.#send = send
  }

  async run(signal: AbortSignal | undefined): Promise<Flushed> {
    signal?.throwIfAborted()
    const id = ++this.#ids
    const flush = Promise.withResolvers<Flushed>()
    flush.promise.catch(() => {})
    this.#open.set(id, flush)
    this.#send(id)
    return await unlessAborted(flush.promise, signal)
  }

  sendAll(): void {
    for (const id of this.#open.keys()) this.#send(id)
  }

  settle({
    id,
    value,
    error,
  }: {
    id: number
    value: Flushed | undefined
    error: WireError | undefined
  }): void {
    const flush = this.#open.get(id)
    this.#open.delete(id)
    if (error === undefined) flush?.resolve(value as Flushed)
    else flush?.reject(fromWireError(error))
  }

  rejectAll(error: Error): void {
    for (const flush of this.#open.values()) flush.reject(error)
    this.#open.clear()
  }
}
