import type { Clock, Timer } from '../../base/clock.ts'
import { encodeMessage, type Parts } from './messages.ts'

/** More bytes than this are sent at once. */
const POSTED_BYTES_MAX = 65_536
/** What nobody waits for leaves at the latest after so many milliseconds. */
const SOON_MS = 50

/**
 * Sends a process's messages to its node, in order. Each write wakes the node, which costs more than most messages. So a
 * message that can wait leaves together with the next one: with 200 restores at once, half of all told of calls to the object store.
 */
export class Outbox<Message> {
  readonly #clock: Clock
  readonly #write: (bytes: Buffer) => void
  #messages: Buffer[] = []
  #bytes = 0
  #timer: Timer | undefined
  /** Monotonic time of the last write. */
  sentAt = 0

  /** @param write returns once the pipe has the bytes, so that messages sent before a kill still arrive */
  constructor(clock: Clock, write: (bytes: Buffer) => void) {
    this.#clock = clock
    this.#write = write
  }

  /** Queues a message for the next {@link send} or {@link flush}. */
  post(message: Message, parts?: Parts, isJson?: boolean): void {
    const bytes = encodeMessage({ message, parts, isJson })
    this.#messages.push(bytes)
    this.#bytes += bytes.length
    if (this.#bytes > POSTED_BYTES_MAX) this.flush()
  }

  /** As {@link post}, where nothing else may follow: it leaves a little later by itself. */
  postSoon(message: Message): void {
    this.post(message)
    if (this.#messages.length > 0) this.#timer ??= this.#clock.setTimer(() => this.flush(), SOON_MS)
  }

  /** Sends the posted messages and this one before it returns. */
  send(message: Message): void {
    this.post(message)
    this.flush()
  }

  flush(): void {
    this.#timer?.cancel()
    this.#timer = undefined
    const [first] = this.#messages
    if (first === undefined) return
    const bytes = this.#messages.length === 1 ? first : Buffer.concat(this.#messages)
    this.#messages = []
    this.#bytes = 0
    this.#write(bytes)
    this.sentAt = this.#clock.monotonic()
  }
}
