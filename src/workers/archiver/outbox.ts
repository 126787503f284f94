import type { Clock, Timer } from '../../base/clock.ts'

/** What nobody waits for leaves at the latest after so many milliseconds. */
const HELD_MS = 50

/**
 * Messages on their way out, in their order. Each write wakes the other process. So what nobody waits for goes with the next
 * message that somebody waits for: with 200 restores at once, half of all messages told of calls to the object store.
 */
export class Outbox {
  readonly #clock: Clock
  readonly #write: (bytes: Buffer) => void
  #held: Buffer[] = []
  #timer: Timer | undefined

  constructor(clock: Clock, write: (bytes: Buffer) => void) {
    this.#clock = clock
    this.#write = write
  }

  send(message: Buffer): void {
    if (this.#held.length === 0) this.#write(message)
    else {
      this.#held.push(message)
      this.#flush()
    }
  }

  /** As {@link send}, a little later. */
  sendSoon(message: Buffer): void {
    this.#held.push(message)
    this.#timer ??= this.#clock.setTimer(() => this.#flush(), HELD_MS)
  }

  #flush(): void {
    this.#timer?.cancel()
    this.#timer = undefined
    const held = this.#held
    this.#held = []
    this.#write(Buffer.concat(held))
  }
}
