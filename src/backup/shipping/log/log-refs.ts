import { type LogNumber, logKey } from '../../versions/object-keys.ts'
import type { StoredLog } from '../stored/stored-log.ts'
import { LogSizes } from './log-sizes.ts'

/** A log object in the order of its kind. */
export interface LogRef extends StoredLog, LogNumber {
  /** Neither a listing nor a look at the key shows it, although later objects are there. */
  isMissing: boolean
  /** Missing, and with it all before it: retention removes the oldest objects, once later versions hold what is in them. */
  isRemoved?: true
}

/** Objects of one epoch, with all numbers from `from` to `to`. */
export interface LogRun {
  epoch: number
  from: number
  to: number
  /** The run is one object, which is not there. */
  gap?: 'missing' | 'removed'
}

/** Log objects in their order. There may be millions: each is made of its number when it is asked for. It never changes. */
export class LogRefs {
  static readonly none = new LogRefs([], new LogSizes())
  readonly length: number
  readonly #runs: readonly LogRun[]
  /** How many objects there are up to the end of each run. */
  readonly #ends: readonly number[]
  readonly #sizes: LogSizes

  constructor(runs: readonly LogRun[], sizes: LogSizes) {
    let length = 0
    this.#runs = runs
    this.#ends = runs.map(({ from, to }) => {
      length += to - from + 1
      return length
    })
    this.length = length
    this.#sizes = sizes
  }

  /** @param index from -1 down: counted from the end */
  at(index: number): LogRef | undefined {
    const place = index < 0 ? this.length + index : index
    const i = this.#runAt(place)
    const run = this.#runs[i]
    if (place < 0 || run === undefined) return undefined
    return this.#ref(run, run.to + 1 - ((this.#ends[i] as number) - place))
  }

  /** From one index up to another one, which may lie outside. */
  slice(begin: number, end = this.length): LogRefs {
    const [first, last] = [Math.max(0, Math.trunc(begin)), Math.min(this.length, Math.trunc(end)) - 1]
    const runs: LogRun[] = []
    for (let i = this.#runAt(first); first <= last && i < this.#runs.length; i++) {
      const run = this.#runs[i] as LogRun
      const begins = (this.#ends[i] as number) - (run.to - run.from + 1)
      if (begins > last) break
      const from = run.from + Math.max(0, first - begins)
      runs.push({ ...run, from, to: Math.min(run.to, run.from + last - begins) })
    }
    return new LogRefs(runs, this.#sizes)
  }

  /** Where the first object after a key is; null: the first of all. */
  firstAfter(key: string | null): number {
    let [low, high] = [0, this.length]
    while (low < high) {
      const middle = (low + high) >>> 1
      if ((this.at(middle) as LogRef).key > (key ?? '')) high = middle
      else low = middle + 1
    }
    return low
  }

  /** Those that are not there. */
  get missing(): LogRefs {
    return this.#only(({ gap }) => gap !== undefined)
  }

  /** The first object of each epoch. */
  get firstOfEpochs(): LogRef[] {
    const firsts = this.#runs.filter(({ epoch }, i) => epoch !== this.#runs[i - 1]?.epoch)
    return firsts.map((run) => this.#ref(run, run.from))
  }

  /** Without what was removed for its age. */
  get withoutRemoved(): LogRefs {
    return this.#only(({ gap }) => gap !== 'removed')
  }

  *[Symbol.iterator](): Generator<LogRef> {
    for (const run of this.#runs)
      for (let number = run.from; number <= run.to; number++) yield this.#ref(run, number)
  }

  #only(isWanted: (run: LogRun) => boolean): LogRefs {
    return new LogRefs(this.#runs.filter(isWanted), this.#sizes)
  }

  #runAt(index: number): number {
    let [low, high] = [0, this.#ends.length]
    while (low < high) {
      const middle = (low + high) >>> 1
      if ((this.#ends[middle] as number) > index) high = middle
      else low = middle + 1
    }
    return low
  }

  #ref({ epoch, gap }: LogRun, number: number): LogRef {
    const place = { epoch, number }
    const sizeBytes = gap === undefined ? (this.#sizes.get(place) ?? 0) : 0
    const ref = { key: logKey(place), sizeBytes, epoch, number, isMissing: gap !== undefined }
    return gap === 'removed' ? { ...ref, isRemoved: true } : ref
  }
}
