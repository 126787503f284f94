import type { Flushed, FlushOptions } from '../../backup/shipping/flushes.ts'
import { unlessAborted } from '../../base/unless-aborted.ts'
import { fromWireError, type WireError } from '../protocol/wire-error.ts'

/** As the archiver gets it. */
export interface RemoteFlush extends Pick<FlushOptions, 'about'> {
  id: number
}

/** Flushes that the archiver has not answered. Another archiver gets them all: its look at the cells is a later one. */
export class RemoteFlushes {
  readonly #send: (flush: RemoteFlush) => void
  readonly #open = new Map<number, PromiseWithResolvers<Flushed> & RemoteFlush>()
  #ids = 0

  /** @param send does nothing as long as there is no archiver */
  constructor(send: (flush: RemoteFlush) => void) {
    this.#send = send
  }

  async run(signal: AbortSignal | undefined, { about }: Pick<FlushOptions, 'about'> = {}): Promise<Flushed> {
    signal?.throwIfAborted()
    const id = ++this.#ids
    const flush = Promise.withResolvers<Flushed>()
    flush.promise.catch(() => {})
    this.#open.set(id, { ...flush, id, about })
    this.#send({ id, about })
    return await unlessAborted(flush.promise, signal)
  }

  sendAll(): void {
    for (const { id, about } of this.#open.values()) this.#send({ id, about })
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
