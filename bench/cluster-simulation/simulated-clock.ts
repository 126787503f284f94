import { setImmediate as turnOfTheLoop } from 'node:timers/promises'
import type { Clock, Timer } from '../../src/base/clock.ts'

interface Due {
  at: number
  /** Timers of the same millisecond fire in the order in which they were set. */
  order: number
  run: () => void
  isCancelled: boolean
}

const EPOCH_MS = Date.UTC(2026, 0, 1)

/** A clock for hundreds of thousands of timers: it goes from one to the next, and what they have begun answers in between. */
export class SimulatedClock implements Clock {
  #now = 0
  #set = 0
  /** A binary heap. */
  readonly #due: Due[] = []

  now(): number {
    return EPOCH_MS + this.#now
  }

  monotonic(): number {
    return this.#now
  }

  sinceBoot(): number {
    return this.#now
  }

  setTimer(run: () => void, delayMs: number): Timer {
    const due = {
      at: this.#now + Math.ceil(Math.max(delayMs, 0)),
      order: this.#set++,
      run,
      isCancelled: false,
    }
    this.#push(due)
    return {
      cancel: () => {
        due.isCancelled = true
      },
    }
  }

  /** Lets milliseconds pass. */
  async pass(ms: number): Promise<void> {
    const end = this.#now + ms
    await turnOfTheLoop()
    for (let next = this.#due[0]; next !== undefined && next.at <= end; next = this.#due[0]) {
      this.#now = next.at
      while (this.#due[0] !== undefined && this.#due[0].at <= this.#now) this.#pop()
      await turnOfTheLoop()
    }
    this.#now = end
  }

  /** Lets time pass until something is so. @throws if it is not within so many milliseconds */
  async passUntil(isSo: () => boolean, what: string, withinMs = 600_000): Promise<void> {
    const deadline = this.#now + withinMs
    while (!isSo()) {
      if (this.#now >= deadline) throw new Error(`Not within ${withinMs} ms of the simulation: ${what}`)
      await this.pass(10)
    }
  }

  #push(due: Due): void {
    const heap = this.#due
    let at = heap.length
    heap.push(due)
    while (at > 0) {
      const parent = (at - 1) >> 1
      if (!isBefore(due, heap[parent] as Due)) break
      heap[at] = heap[parent] as Due
      at = parent
    }
    heap[at] = due
  }

  #pop(): void {
    const heap = this.#due
    const first = heap[0] as Due
    const last = heap.pop() as Due
    if (heap.length > 0) this.#sink(last)
    if (!first.isCancelled) first.run()
  }

  #sink(due: Due): void {
    const heap = this.#due
    let at = 0
    for (;;) {
      let child = 2 * at + 1
      if (child >= heap.length) break
      if (child + 1 < heap.length && isBefore(heap[child + 1] as Due, heap[child] as Due)) child++
      if (!isBefore(heap[child] as Due, due)) break
      heap[at] = heap[child] as Due
      at = child
    }
    heap[at] = due
  }
}

function isBefore(a: Due, b: Due): boolean {
  return a.at < b.at || (a.at === b.at && a.order < b.order)
}

/** The clock of one machine: once it is off, none of its timers fires. */
export class MachineClock implements Clock {
  readonly #clock: Clock
  isOff = false

  constructor(clock: Clock) {
    this.#clock = clock
  }

  now(): number {
    return this.#clock.now()
  }

  monotonic(): number {
    return this.#clock.monotonic()
  }

  sinceBoot(): number {
    return this.#clock.sinceBoot()
  }

  setTimer(run: () => void, delayMs: number): Timer {
    return this.#clock.setTimer(() => {
      if (!this.isOff) run()
    }, delayMs)
  }
}
