import type { Clock } from '../../base/clock.ts'

/** Less than this is not worth a question to the system, or a place in a message: the next cell has it. */
const WORTH_MS = 0.25

/** How much of the processor each cell of a batch takes. Waits for the disk do not count. */
export class ProcessorTime {
  readonly #clock: Clock
  readonly #processorMs: () => number
  /** Monotonic time and processor time when the last counted cell had ended. */
  #sinceMs = 0
  #countedMs = 0

  constructor(clock: Clock, processorMs: () => number = ofThisProcess) {
    this.#clock = clock
    this.#processorMs = processorMs
  }

  /** A batch begins. */
  begin(): void {
    this.#sinceMs = this.#clock.monotonic()
    this.#countedMs = this.#processorMs()
  }

  /** @returns the time that the cell has just taken, or 0 if it is too little to count; the next cell has it then */
  lap(): number {
    const now = this.#clock.monotonic()
    if (now - this.#sinceMs < WORTH_MS) return 0
    const processorMs = this.#processorMs()
    const ms = processorMs - this.#countedMs
    this.#sinceMs = now
    this.#countedMs = processorMs
    return ms
  }
}

function ofThisProcess(): number {
  const { user, system } = process.cpuUsage()
  return (user + system) / 1_000
}
