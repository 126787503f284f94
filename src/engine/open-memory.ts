import type { Clock } from '../base/clock.ts'
import type { CellDatabase } from './cell-database.ts'
import { PAGE_BYTES } from './cell-settings.ts'
import { FairShares } from './commits/fair-shares.ts'
import type { Statement } from './sqlite.ts'

/** What the open cells of a process may keep in memory. */
export interface MemoryBound {
  /** Above this the cells are weighed, and closed until they weigh no more than this. */
  bytesMax: number
  /** Above this the process may end soon, although cells were closed. */
  nearEndBytes: number
  /** What the process uses in all, by default its resident memory. */
  usedBytes?: (() => number) | undefined
}

/** An open cell with nothing in its caches: measured, most of it is what SQLite sets aside for small allocations. */
const OPEN_BYTES = 192 * 1_024
/** A page in the cache takes a little more than its bytes. */
const PAGE_FACTOR = 1.1
/** To ask for a process's memory costs the system about 10 µs. In this time, cells take a few tens of MiB at most. */
const LOOK_EVERY_MS = 5
/** The part of the bound by which memory has to grow until the cells are weighed again: freed memory stays with the process. */
const GROWTH_SHARE = 1 / 32

/**
 * The memory that open cells take: schemas, statistics, prepared statements, pages. SQLite does not tell how much it is, so
 * as long as the process as a whole uses little, nothing happens. Above the bound each cell counts with the most that it can take.
 */
export class OpenMemory {
  readonly #bound: MemoryBound
  readonly #clock: Clock
  readonly #measured = new WeakMap<CellDatabase, { usedAt: number; bytes: number }>()
  #lookedAt = Number.NEGATIVE_INFINITY
  /** What was used when cells were last weighed, or less since. */
  #weighedAt = 0
  /** Whose cells took most when all together last took too much, if the process may end soon. */
  heaviest: string | undefined

  constructor(bound: MemoryBound, clock: Clock) {
    this.#bound = bound
    this.#clock = clock
  }

  /** Whether the cells have to be weighed. Asks the system now and then. */
  isShort(): boolean {
    const now = this.#clock.monotonic()
    if (now - this.#lookedAt < LOOK_EVERY_MS) return false
    this.#lookedAt = now
    const { bytesMax, nearEndBytes, usedBytes = ofThisProcess } = this.#bound
    const used = usedBytes()
    if (used <= nearEndBytes) this.heaviest = undefined
    this.#weighedAt = Math.min(this.#weighedAt, used)
    if (used <= bytesMax || used < this.#weighedAt + GROWTH_SHARE * bytesMax) return false
    this.#weighedAt = used
    return true
  }

  weigh(open: ReadonlyMap<string, CellDatabase>, owner: (id: string) => string): FairShares {
    const shares = new FairShares(this.#bound.bytesMax)
    for (const [id, database] of open) shares.set(id, owner(id), this.#bytesOf(database))
    // Of cells that fit into the bound, none is to blame: something else takes the memory.
    if (this.#weighedAt > this.#bound.nearEndBytes && shares.isExceeded) this.heaviest = shares.heaviest
    return shares
  }

  #bytesOf(database: CellDatabase): number {
    const { usedAt } = database
    const known = this.#measured.get(database)
    if (known?.usedAt === usedAt) return known.bytes
    const bytes = OPEN_BYTES + database.statementBytes + measure(database)
    this.#measured.set(database, { usedAt, bytes })
    return bytes
  }
}

/** The most that its schema and its pages can take; 0 if it can't be read: then its next statement fails, and says why. */
function measure(database: CellDatabase): number {
  try {
    const pages = database.prepare('PRAGMA main.page_count').pluck().get() as number
    const cached = Math.min(pages * PAGE_BYTES, database.settings.pageCacheBytes)
    return schemaWeight(database) + Math.ceil(PAGE_FACTOR * cached)
  } catch {
    return 0
  }
}

function ofThisProcess(): number {
  return process.memoryUsage.rss()
}

/** Opened, the text of a schema takes up to so many times as much memory. */
const TEXT_FACTOR = 32

const SCHEMA =
  "SELECT ifnull(sum(octet_length(sql)), 0), ifnull(max(name = 'sqlite_stat4'), 0) FROM main.sqlite_schema"
/**
 * SQLite keeps up to 24 keys of each index in memory, however long they are, with three counts for each of their columns.
 */
const STATISTICS =
  'SELECT ifnull(sum(octet_length(sample) + 12 * octet_length(neq) + 40), 0) FROM main.sqlite_stat4'

/** Bytes of memory that the schema and the planner's statistics of an open cell take at most. @throws SQLite's errors */
function schemaWeight(database: { prepare(sql: string): Statement }): number {
  const [text, hasStatistics] = database.prepare(SCHEMA).raw().get() as [number, number]
  const statistics = hasStatistics === 0 ? 0 : (database.prepare(STATISTICS).pluck().get() as number)
  return TEXT_FACTOR * text + statistics
}
