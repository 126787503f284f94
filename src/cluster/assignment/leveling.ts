import type { Clock, Timer } from '../../base/clock.ts'
import type { Log } from '../../base/log.ts'
import { levelingMove } from './balance.ts'
import type { Handovers } from './handovers.ts'

/** How often a node looks whether it has to give ranges away. */
const LOOK_EVERY_MS = 5_000
/** Counts of busy cells follow a move slowly: so it waits in between, unless a node has nothing at all. */
const PAUSE_MS = 60_000

interface LevelingParts {
  self: string
  handovers: Handovers
  clock: Clock
  random: () => number
  log: Log
}

/** Gives ranges to nodes that have less to do, by itself and slowly. */
export class Leveling {
  readonly #parts: LevelingParts
  #timer: Timer | undefined
  #isRunning = false
  #leveledAt = Number.NEGATIVE_INFINITY

  constructor(parts: LevelingParts) {
    this.#parts = parts
  }

  start(): void {
    this.#isRunning = true
    this.#later()
  }

  /** Does not wait for its turn. */
  now(): void {
    this.#leveledAt = Number.NEGATIVE_INFINITY
    this.#isRunning = true
    this.#later(0)
  }

  stop(): void {
    this.#isRunning = false
    this.#timer?.cancel()
  }

  #later(ms = LOOK_EVERY_MS * (0.5 + this.#parts.random() / 2)): void {
    this.#timer?.cancel()
    if (!this.#isRunning) return
    this.#timer = this.#parts.clock.setTimer(() => void this.#level().finally(() => this.#later()), ms)
  }

  async #level(): Promise<void> {
    const { self, handovers, clock, log } = this.#parts
    const loads = handovers.loads()
    const move = levelingMove(loads)
    if (move?.from !== self) return
    const isEmpty = loads.some(({ id, ranges }) => id === move.to && ranges === 0)
    if (!isEmpty && clock.monotonic() - this.#leveledAt < PAUSE_MS) return
    this.#leveledAt = clock.monotonic()
    try {
      await handovers.level()
    } catch (err) {
      log.warn({ err }, 'could not give cells to a node that has fewer')
    }
  }
}
