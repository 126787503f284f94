import { type Stats, stat } from 'node:fs'
import type { Clock, Timer } from '../../../base/clock.ts'

/** So long a process may write before anybody looks. */
const EVERY_MS = 50

/** Looks again and again how large a file is that another process writes. */
export class FileGrowth {
  readonly #clock: Clock
  readonly #file: string
  readonly #seen: (bytes: number) => void
  #timer: Timer
  #isOver = false
  /** As it was seen last; 0 while there is no file. */
  sizeBytes = 0

  /** @param seen is called with each size */
  constructor(clock: Clock, file: string, seen: (bytes: number) => void) {
    this.#clock = clock
    this.#file = file
    this.#seen = seen
    this.#timer = this.#wait()
  }

  stop(): void {
    this.#isOver = true
    this.#timer.cancel()
  }

  #wait(): Timer {
    return this.#clock.setTimer(() => stat(this.#file, (_, found?: Stats) => this.#take(found)), EVERY_MS)
  }

  #take(found: Stats | undefined): void {
    if (this.#isOver) return
    this.sizeBytes = found?.size ?? 0
    this.#seen(this.sizeBytes)
    this.#timer = this.#wait()
  }
}
