import { encodeMessage } from '../protocol/messages.ts'
import type { FromWorker } from '../protocol/protocol.ts'

/** More does not wait. */
const POSTED_BYTES_MAX = 65_536

/**
 * Messages on their way from a worker to its node, in their order. Each write wakes the node up, which costs more than most
 * messages do: so what can wait for a moment leaves together with what comes next.
 */
export class Outbox {
  readonly #write: (bytes: Buffer) => void
  #messages: Buffer[] = []
  #bytes = 0

  /** @param write returns once the bytes have left: what was sent before a kill arrives */
  constructor(write: (bytes: Buffer) => void) {
    this.#write = write
  }

  /** Leaves with the next message that is sent, or at the next {@link flush}. */
  post(message: FromWorker): void {
    const bytes = encodeMessage(message)
    this.#messages.push(bytes)
    this.#bytes += bytes.length
    if (this.#bytes > POSTED_BYTES_MAX) this.flush()
  }

  /** Has left when this returns, and what was posted before it. */
  send(message: FromWorker): void {
    this.post(message)
    this.flush()
  }

  flush(): void {
    const [first] = this.#messages
    if (first === undefined) return
    const bytes = this.#messages.length === 1 ? first : Buffer.concat(this.#messages)
    this.#messages = []
    this.#bytes = 0
    this.#write(bytes)
  }
}
