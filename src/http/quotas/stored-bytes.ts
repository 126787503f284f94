import { turnOfTheLoop as turn } from '../../base/clock.ts'
import { isUnreadable } from '../../base/files/unreadable.ts'
import { LruCache } from '../../base/lru-cache.ts'
import { isCellError } from '../../errors.ts'
import type { CellDirectory } from '../../store/cells/cell-directory.ts'

/** A cell is measured once more this long after a change: what its log held may have moved by then. */
const MEASURE_AGAIN_MS = 1_000
/** Cells that one question measures. */
const PER_QUESTION_MAX = 100
/** Accounts whose cells are known. That of one takes about 100 bytes a cell. */
const ACCOUNTS_MAX = 1_000

interface Usage {
  bytes: number
  readonly cells: Map<string, number>
  /** Since when cells have changed, or may have grown with it: the oldest change first. */
  readonly changed: Map<string, number>
}

/**
 * How many bytes the database files of an account's cells have: an estimate. The first question about an account has its
 * cells measured in the background, and the answer is too low until that is done. From then on a cell is measured when it
 * has changed, and once more with a question that comes a second later. What a cell's log holds counts once it is moved into the file (`checkpointBytes`), and at once what it has
 * beyond twice that: a long transaction that is not committed, or is in the file already and not cut yet. A file that comes, goes or is replaced is measured at once, whoever has it done. One that cannot be read counts as it last was.
 */
export class StoredBytes {
  readonly #store: CellDirectory
  readonly #accounts = new LruCache<Usage>(ACCOUNTS_MAX)

  constructor(store: CellDirectory) {
    this.#store = store
    store.filesReplaced.listen((cellId, accountId) => {
      // Of other accounts nothing is known: the first question about one has all of its cells measured.
      const usage = accountId === null ? undefined : this.#accounts.get(accountId)
      if (usage !== undefined) this.#measure(usage, cellId)
    })
  }

  of(accountId: string): number {
    const usage = this.#usageOf(accountId)
    this.#measureChanged(usage)
    return usage.bytes
  }

  /** Its cells are measured again with the next question. */
  forget(accountId: string): void {
    this.#accounts.delete(accountId)
  }

  /** The cell has changed. */
  changed(accountId: string, cellId: string): void {
    const usage = this.#usageOf(accountId)
    this.#measure(usage, cellId)
    if (!usage.changed.has(cellId)) usage.changed.set(cellId, this.#store.clock.monotonic())
  }

  #usageOf(accountId: string): Usage {
    let usage = this.#accounts.get(accountId)
    if (usage === undefined) {
      usage = { bytes: 0, cells: new Map(), changed: new Map() }
      this.#accounts.set(accountId, usage)
      void this.#measureAll(accountId, usage)
    }
    return usage
  }

  async #measureAll(accountId: string, usage: Usage): Promise<void> {
    let cursor: string | undefined
    try {
      do {
        const { cells, nextCursor } = this.#store.cellRecords({ accountId, cursor })
        for (const { id } of cells) if (!usage.cells.has(id)) this.#measure(usage, id)
        cursor = nextCursor ?? undefined
        await turn()
      } while (cursor !== undefined)
    } catch (error) {
      if (!isCellError(error, 'store_closed')) this.#store.settings.log.warn({ err: error }, NOT_MEASURED)
    }
  }

  /** Each change of a cell comes after a question, which measures many: the list does not grow. */
  #measureChanged(usage: Usage): void {
    if (usage.changed.size === 0) return
    const before = this.#store.clock.monotonic() - MEASURE_AGAIN_MS
    let measured = 0
    for (const [cellId, since] of usage.changed) {
      if (since > before || measured++ === PER_QUESTION_MAX) return
      usage.changed.delete(cellId)
      this.#measure(usage, cellId)
    }
  }

  #measure(usage: Usage, cellId: string): void {
    const bytes = this.#bytesOf(cellId)
    if (bytes === undefined) return
    usage.bytes += bytes - (usage.cells.get(cellId) ?? 0)
    if (bytes === 0) usage.cells.delete(cellId)
    else usage.cells.set(cellId, bytes)
  }

  /** @returns undefined if the cell's folder cannot be read */
  #bytesOf(cellId: string): number | undefined {
    try {
      return this.#store.storedBytes(cellId)
    } catch (error) {
      if (isUnreadable(error)) return undefined
      throw error
    }
  }
}

const NOT_MEASURED = 'not all cells of an account could be measured, so its quota of bytes is not exact'
