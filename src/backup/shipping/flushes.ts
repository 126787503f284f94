import type { CollectedLook, CollectLimits } from '../changes/log/cell-log.ts'

/** What a caller of a flush wants. */
export interface FlushOptions {
  /** It does not wait for others to share its object. */
  isAtOnce?: boolean | undefined
  /** The caller waits for these cells only. Undefined, or without any: for all cells; without any, it is told of none. */
  cells?: readonly string[] | undefined
}

/** What a flush leaves out. */
export interface Flushed {
  /** Cells that have changed but have no history: what they committed is stored with their next version. */
  withoutHistory: readonly string[]
  /** Cells whose files cannot be read: what they committed is stored once they can. */
  unreadable: readonly string[]
}

/** Whether all that a cell had committed is stored with a flush. */
export function holdsAllOf(cellId: string, { withoutHistory, unreadable }: Flushed): boolean {
  return !withoutHistory.includes(cellId) && !unreadable.includes(cellId)
}

interface Flush extends PromiseWithResolvers<Flushed>, FlushOptions {
  /** The first look that began after the call. */
  since?: number
}

/** What callers need of a look. */
export type LookNeeds = Pick<CollectLimits, 'historyOf' | 'awaited' | 'isHurried'>

/** What a look has found that is stored now. */
export interface StoredLook extends Flushed, Pick<CollectedLook, 'askedIn' | 'complete'> {
  /** It was all that there was. */
  isAll: boolean
}

/** Callers that wait for what was committed before their call: a look at the cells that begins after it finds all of that. */
export class Flushes {
  /** Since the last look, and those that the look or one before it is for. */
  #waiting: Flush[] = []
  #looked: Flush[] = []

  get isAny(): boolean {
    return this.#waiting.length > 0 || this.#looked.length > 0
  }

  /** Somebody waits who does not want to share an object. */
  get isAtOnce(): boolean {
    return this.#waiting.some(({ isAtOnce }) => isAtOnce)
  }

  add(options: FlushOptions): Promise<Flushed> {
    const flush = { ...Promise.withResolvers<Flushed>(), ...options }
    flush.promise.catch(() => {})
    this.#waiting.push(flush)
    return flush.promise
  }

  /** A look at the cells begins. */
  look(): LookNeeds {
    this.#looked.push(...this.#waiting.splice(0))
    const awaited = [...new Set(this.#looked.flatMap(({ cells = [] }) => cells))]
    const isForAll = this.#looked.some(({ cells }) => cells === undefined)
    return { historyOf: isForAll ? undefined : awaited, awaited, isHurried: awaited.length > 0 }
  }

  /** The look has the number by which later answers are told from earlier ones. */
  lookedIn(look: number): void {
    for (const flush of this.#looked) flush.since ??= look
  }

  /** What the last look has found is stored. Who waits for all cells goes on waiting unless that was all. */
  stored({ isAll, askedIn, complete, withoutHistory, unreadable }: StoredLook): void {
    const isStored = ({ since = Number.POSITIVE_INFINITY, cells = [] }: Flush) => {
      if (isAll && askedIn >= since) return true
      return cells.length > 0 && cells.every((cellId) => (complete[cellId] ?? -1) >= since)
    }
    const [stored, waiting] = [this.#looked.filter(isStored), this.#looked.filter((each) => !isStored(each))]
    this.#looked = waiting
    for (const flush of stored) flush.resolve({ withoutHistory, unreadable })
  }

  reject(error: unknown): void {
    for (const flush of [...this.#looked.splice(0), ...this.#waiting.splice(0)]) flush.reject(error)
  }
}
