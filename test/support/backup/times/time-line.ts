/** A state of a cell, and when it began on the cell's own line of time: not before `from`, and not after `to`. */
interface TimedState {
  state: string
  from: number
  to: number
}

/** What a cell was at each moment: what a restore to any time has to bring back. */
export class TimeLine {
  readonly cellId: string
  #states: TimedState[] = []
  /** The cell's line of time never steps back: it has come at least, and at most, so far. */
  #low = 0
  #high = 0

  constructor(cellId: string) {
    this.cellId = cellId
  }

  get last(): string {
    return this.#states.at(-1)?.state ?? ''
  }

  /** Where the line begins and ends. */
  get span(): [from: number, to: number] {
    return [this.#states[0]?.from ?? 0, this.#high]
  }

  get moments(): number[] {
    return this.#states.map(({ to }) => to)
  }

  /** Something that is timed now, or was at the earliest `since`. */
  passed(now: number, since = now): void {
    this.#low = Math.max(this.#low, Math.min(since, now))
    this.#high = Math.max(this.#high, now)
  }

  /** The cell may have looked at the clock. */
  looked(now: number): void {
    this.#high = Math.max(this.#high, now)
  }

  /** The cell may have a version of now, or have come back from one: what follows is later. */
  cut(now: number): void {
    this.looked(now)
    this.#high++
  }

  /** @param since the earliest time that it may have been given, by the clock */
  became(state: string, now: number, since = now): void {
    this.passed(now, since)
    this.#states.push({ state, from: this.#low, to: this.#high })
  }

  /**
   * The times of what was not shipped are lost with the process: they are as early as they can be, so that no moment lacks what was
   * acknowledged before it.
   */
  timesLost(since: number, now: number): void {
    this.cut(now)
    const first = this.#states.findIndex(({ to }) => to >= since)
    const earliest = Math.min(since, this.#states[first - 1]?.from ?? 0)
    this.#low = Math.min(this.#low, earliest)
    for (const each of this.#states) if (each.to >= since) each.from = Math.min(each.from, earliest)
  }

  /**
   * Everything after its last occurrence is lost, and what it was timed with: if the clock was set back, what follows may be earlier.
   *
   * @throws if the cell never had the state
   */
  backTo(state: string): void {
    const at = this.#states.findLastIndex((each) => each.state === state)
    if (at === -1) throw new Error(`the cell never was what it is now: ${state}`)
    this.#states = this.#states.slice(0, at + 1)
    this.#low = Math.min(this.#low, this.#states.at(-1)?.from ?? 0)
  }

  /** Whether the cell had the state at that time, as far as the clock tells. */
  had(state: string, time: number): boolean {
    return this.#states.some(({ from, ...each }, i) => {
      const end = this.#states[i + 1]?.to ?? Number.POSITIVE_INFINITY
      return each.state === state && from <= time && time < end
    })
  }

  told(around: number): string {
    const at = this.#states.findLastIndex(({ from }) => from <= around)
    const some = this.#states.slice(Math.max(0, at - 4), at + 5)
    return some
      .map(({ state, from, to }) => `${state.slice(0, 40)} @${from}${to > from ? `-${to}` : ''}`)
      .join('\n')
  }
}
