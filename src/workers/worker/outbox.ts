import type { Clock } from '../../base/clock.ts'
import { encodeMessage, type Parts } from '../protocol/messages.ts'
import type { FromWorker } from '../protocol/protocol.ts'

/** More bytes than this are sent at once. */
const POSTED_BYTES_MAX = 65_536

/**
 * Sends a worker's messages to its node, in order. Each write wakes the node, which costs more than most messages. So a
 * message that can wait leaves together with the next one.
 */
export class Outbox {
  readonly #write: (bytes: Buffer) => void
  #messages: Buffer[] = []
  #bytes = 0
  readonly #clock: Clock
  /** Monotonic time of the last write. */
  sentAt = 0

  /** @param write returns once the pipe has the bytes, so that messages sent before a kill still arrive */
  constructor(clock: Clock, write: (bytes: Buffer) => void) {
    this.#clock = clock
    this.#write = write
  }

  /** Queues a message for the next {@link send} or {@link flush}. */
  post(message: FromWorker, parts?: Parts, isJson?: boolean): void {
    const bytes = encodeMessage({ message, parts, isJson })
    this.#messages.push(bytes)
    this.#bytes += bytes.length
    if (this.#bytes > POSTED_BYTES_MAX) this.flush()
  }

  /** Sends the posted messages and this one before it returns. */
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
    this.sentAt = this.#clock.monotonic()
  }
}
