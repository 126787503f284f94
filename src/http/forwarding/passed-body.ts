import type { IncomingMessage } from 'node:http'
import { PassThrough, pipeline, type Readable } from 'node:stream'
import { ReadableBody } from '../body/readable-body.ts'

/** A body that comes from another node, no faster than the client takes it. */
export class PassedBody extends ReadableBody {
  readonly length: number | undefined
  readonly #answer: IncomingMessage
  readonly #ends: AbortSignal | undefined

  /** @param ends ends a body that has no end of its own */
  constructor(answer: IncomingMessage, length: number | undefined, ends?: AbortSignal) {
    super()
    this.#answer = answer
    this.length = length
    this.#ends = ends
  }

  open(): Readable {
    const body = new PassThrough()
    // Whole for its reader: it comes back for what follows.
    const end = () => {
      body.end()
      this.#answer.destroy()
    }
    if (this.#ends?.aborted === true) end()
    this.#ends?.addEventListener('abort', end, { once: true })
    pipeline(this.#answer, body, () => this.#ends?.removeEventListener('abort', end))
    return body
  }

  async discard(): Promise<void> {
    if (!this.#answer.complete) this.#answer.destroy()
  }
}
