import { setImmediate } from '../../base/clock.ts'

/** What a reader does with a change comes after the turn in which it is woken, so that its time can't be measured here. */
const READERS_A_TURN = 16

/** Wakes those who wait, a few in each turn of the event loop: a cell may have hundreds of readers. */
export class Wakeups {
  readonly #due = new Set<() => void>()
  #scheduled = false

  wake(waiting: ReadonlySet<() => void>): void {
    for (const each of waiting) this.#due.add(each)
    this.#schedule()
  }

  #schedule(): void {
    if (this.#scheduled || this.#due.size === 0) return
    this.#scheduled = true
    setImmediate(() => this.#run())
  }

  #run(): void {
    this.#scheduled = false
    for (const each of [...this.#due].slice(0, READERS_A_TURN)) {
      this.#due.delete(each)
      each()
    }
    this.#schedule()
  }
}
