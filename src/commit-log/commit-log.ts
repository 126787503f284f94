import path from 'node:path'
import { mapLimit } from '../base/async/map-limit.ts'
import type { Clock } from '../base/clock.ts'
import type { Log } from '../base/log.ts'
import { LogFile, SYNCS_AT_ONCE } from './log-file.ts'
import { batchBytes, HEAD_BYTES, type LogRecord } from './log-format.ts'

/** A cell whose commits the log has. */
export interface LoggedCell {
  readonly cellId: string
  /** Resolves once all that its WAL holds is on disk. */
  syncWal(): Promise<void>
}

export interface CommitLogParts {
  /** The folder of all logs of the store. */
  directory: string
  /** Begins the names of its files: no other living process of the store has the same. */
  owner: string
  /** A file has at most this many bytes. */
  fileBytesMax: number
  clock: Clock
  log: Log
}

const FILE_BYTES_MIN = 4 * 1_048_576
/** So much of a file for each cell that the last one named: a file that many cells share lasts for many commits of each. */
const BYTES_PER_CELL = 65_536
/** In use, free, and some that wait for a disk that fails. */
const FILES_MAX = 4
/** A file that could not be made is tried again after so many groups of commits. */
const TRY_EVERY = 1_000

/** A file, and the cells whose newest bytes may be on disk only there. */
interface UsedFile {
  file: LogFile
  cells: Map<string, LoggedCell>
}

/**
 * The commit log of a process: commits of several cells are on disk with one write and one fdatasync, instead of an fsync of
 * each cell's WAL. A file that is full is free again when each WAL that it names has been fsynced, in the background:
 *
 *     being made ──▶ free ── the one before is full ──▶ in use ── full ──▶ retiring ── every WAL is on disk ──▶ free
 *                                                                             └── an fsync fails ──▶ kept for the next start
 *
 * If it can't take a batch (no file is free, a write has failed), it says so, and each WAL has to be fsynced instead. That is
 * always right, because a record never takes the place of what a WAL holds: see docs/decisions/0018-commit-log.md.
 */
export class CommitLog {
  readonly #parts: CommitLogParts
  #active: UsedFile | undefined
  #free: LogFile | undefined
  readonly #retired = new Set<UsedFile>()
  #making: Promise<void> | undefined
  #retiring: Promise<void> = Promise.resolve()
  #numbers = 0
  #fileBytes: number
  /** Groups until a file that could not be made is tried again. */
  #pause = 0
  #failed = false
  #closed = false

  constructor(parts: CommitLogParts) {
    this.#parts = parts
    this.#fileBytes = Math.min(FILE_BYTES_MIN, parts.fileBytesMax)
  }

  /**
   * Writes the records as one batch, and returns once it is on disk.
   *
   * @param records of different cells
   * @returns false if it can't: nothing is promised then, and the caller fsyncs each WAL
   */
  append(records: readonly (LogRecord & { cell: LoggedCell })[]): boolean {
    const bytes = batchBytes(records)
    const used = this.#fileFor(bytes)
    if (used === undefined) return false
    // Before the write: what it writes may be read back, whether or not it fails.
    for (const { cell } of records) used.cells.set(cell.cellId, cell)
    try {
      used.file.append(records, this.#parts.clock.now())
    } catch (err) {
      // After a failed write nobody knows what a later one stores. The file stays for the next start.
      this.#failed = true
      this.#parts.log.error(
        { err },
        'the commit log failed; until the next start each cell is fsynced instead',
      )
      return false
    }
    if (used.file.room < used.file.size / 2) this.#make()
    return true
  }

  /** Whether the newest bytes of the cell's WAL may be on disk only here. */
  names(cellId: string): boolean {
    return this.#files().some(({ cells }) => cells.has(cellId))
  }

  /** The cell's WAL is on disk, or gone after a checkpoint: no record of it is needed. */
  settled(cellId: string): void {
    for (const used of this.#files()) {
      if (used.cells.delete(cellId) && used.cells.size === 0 && used !== this.#active) this.#release(used)
    }
  }

  /** Resolves once no file is being made or freed. */
  async idle(): Promise<void> {
    await this.#making
    await this.#retiring
    await this.#making
  }

  /** Starts to make the first file. */
  prepare(): Promise<void> {
    if (this.#active === undefined) this.#make()
    return this.idle()
  }

  /** Call it when every cell is closed. Removes the files; those that are still needed stay for the next start. */
  async close(): Promise<void> {
    this.#closed = true
    await this.idle()
    this.#free?.remove()
    for (const { file, cells } of this.#files()) {
      if (cells.size === 0) file.remove()
      else file.close()
    }
    this.#free = undefined
    this.#active = undefined
    this.#retired.clear()
  }

  #files(): UsedFile[] {
    return this.#active === undefined ? [...this.#retired] : [this.#active, ...this.#retired]
  }

  /** @returns the file in use, if it has room for the batch */
  #fileFor(bytes: number): UsedFile | undefined {
    if (this.#failed || this.#closed) return undefined
    if (this.#active !== undefined && bytes <= this.#active.file.room) return this.#active
    if (bytes > this.#fileBytes - HEAD_BYTES) return undefined
    if (this.#free === undefined || bytes > this.#free.room) {
      this.#make()
      return undefined
    }
    const full = this.#active
    this.#active = { file: this.#free, cells: new Map() }
    this.#free = undefined
    if (full !== undefined) this.#retire(full)
    return this.#active
  }

  #retire(full: UsedFile): void {
    this.#retired.add(full)
    this.#growFor(full)
    this.#release(full)
  }

  /** Files have room for as many cells as one names, from the next one on. */
  #growFor({ cells }: UsedFile): void {
    const bytes = 2 ** Math.ceil(Math.log2(Math.max(1, cells.size) * BYTES_PER_CELL))
    this.#fileBytes = Math.min(Math.max(bytes, this.#fileBytes), this.#parts.fileBytesMax)
  }

  #release(full: UsedFile): void {
    this.#retiring = this.#retiring.then(() => this.#syncAll(full))
  }

  async #syncAll(full: UsedFile): Promise<void> {
    if (!this.#retired.has(full)) return
    await mapLimit([...full.cells.values()], SYNCS_AT_ONCE, async (cell) => {
      try {
        await cell.syncWal()
        if (full.cells.get(cell.cellId) === cell) full.cells.delete(cell.cellId)
      } catch {
        // The cell is quarantined, or closed without a checkpoint: its records are kept.
      }
    })
    if (full.cells.size > 0) return
    this.#retired.delete(full)
    await this.#reuse(full.file)
  }

  async #reuse(file: LogFile): Promise<void> {
    try {
      await file.renew()
      this.#keepFree(file)
    } catch (err) {
      this.#parts.log.warn({ err }, 'a file of the commit log could not be used again')
      removeIfPossible(file)
    }
  }

  /** A smaller file than is wanted goes, as does a second one. */
  #keepFree(file: LogFile): void {
    if (this.#free !== undefined || file.size < this.#fileBytes) file.remove()
    else this.#free = file
  }

  /** Makes a free file, unless there is one or a retiring one will be. */
  #make(): void {
    if (this.#making !== undefined || this.#free !== undefined || this.#closed || this.#failed) return
    if (this.#files().length >= FILES_MAX || this.#pause-- > 0) return
    if (this.#active !== undefined) this.#growFor(this.#active)
    this.#making = this.#create().finally(() => {
      this.#making = undefined
    })
  }

  async #create(): Promise<void> {
    const { directory, owner, log } = this.#parts
    const name = path.join(directory, `${owner}.${++this.#numbers}.log`)
    try {
      this.#keepFree(await LogFile.create(name, this.#fileBytes))
    } catch (err) {
      this.#pause = TRY_EVERY
      log.warn({ err }, 'no file for the commit log could be made; each cell is fsynced instead')
    }
  }
}

/** No WAL needs it. If it stays for the next start, nothing is wrong. */
function removeIfPossible(file: LogFile): void {
  try {
    file.remove()
  } catch {
    // The disk fails.
  }
}
