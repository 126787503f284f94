import { type LogNumber, logKey } from '../../versions/object-keys.ts'
import type { StoredLog } from '../stored/stored-log.ts'

/** Numbers that share a block of memory. */
const BLOCK = 512

/**
 * The sizes of listed log objects. A node can make ten a second, so millions of them may be listed: each takes eight bytes, outside
 * of the JavaScript heap.
 */
export class LogSizes {
  /** By epoch, and by number / `BLOCK`: each size plus 1; 0: no such object. */
  readonly #epochs = new Map<number, Map<number, Float64Array>>()

  set({ epoch, number }: LogNumber, sizeBytes: number): void {
    let blocks = this.#epochs.get(epoch)
    if (blocks === undefined) {
      blocks = new Map()
      this.#epochs.set(epoch, blocks)
    }
    const index = Math.floor(number / BLOCK)
    let block = blocks.get(index)
    if (block === undefined) {
      block = new Float64Array(BLOCK)
      blocks.set(index, block)
    }
    block[number % BLOCK] = sizeBytes + 1
  }

  /** Undefined if there is no such object. */
  get({ epoch, number }: LogNumber): number | undefined {
    const size = this.#epochs.get(epoch)?.get(Math.floor(number / BLOCK))?.[number % BLOCK] ?? 0
    return size === 0 ? undefined : size - 1
  }

  /** The first of those that lead to an object without a gap. @param min the lowest number to look at */
  firstOfRow({ epoch, number }: LogNumber, min: number): number {
    let first = number
    while (first > min && this.get({ epoch, number: first - 1 }) !== undefined) first--
    return first
  }

  /** The newest object before a place. */
  lastBefore({ epoch, number }: LogNumber): LogNumber | undefined {
    for (const each of newestFirst(this.#epochs.keys())) {
      if (each > epoch) continue
      const last = this.#lastOf(each, each === epoch ? number : Number.POSITIVE_INFINITY)
      if (last !== undefined) return { epoch: each, number: last }
    }
    return undefined
  }

  #lastOf(epoch: number, below: number): number | undefined {
    for (const index of newestFirst(this.#epochs.get(epoch)?.keys() ?? [])) {
      const begin = index * BLOCK
      for (let number = Math.min(begin + BLOCK, below) - 1; number >= begin; number--)
        if (this.get({ epoch, number }) !== undefined) return number
    }
    return undefined
  }
}

function newestFirst(numbers: Iterable<number>): number[] {
  return [...numbers].sort((a, b) => b - a)
}

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

  #only(isIn: (run: LogRun) => boolean): LogRefs {
    return new LogRefs(this.#runs.filter(isIn), this.#sizes)
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
