import { open, stat } from 'node:fs/promises'
import type { Clock } from '../../base/clock.ts'
import { SYNC_EVERY_BYTES } from '../../base/durable-files.ts'
import { LruCache } from '../../base/lru-cache.ts'
import type { StorePaths } from '../../base/store-paths.ts'
import { holdWriters } from './held-writers.ts'

/** A shorter file never holds up others for long. A WAL that overwrites itself keeps half of it. */
const FROM_BYTES = 2 * SYNC_EVERY_BYTES
/** After each look: as many as there is time for until the next one, while the cell's worker writes. */
const FLUSHES_A_LOOK = 4
/** What a disk says that could not store something. */
const DISK_ERRORS: readonly unknown[] = ['EIO', 'ENOSPC', 'EDQUOT']
/** Files that are remembered: more than workers write at a time. */
const FILES_MAX = 256

/**
 * Has what long work writes stored while it is written. SQLite leaves a large transaction, or a checkpoint, to one fsync at its
 * end, and the small fsyncs of all other cells wait behind that in the disk's queue: up to 230 ms for 350 MB, measured. In
 * pieces, they wait for one piece; and whoever writes waits meanwhile, so that no piece is longer than the one before it.
 *
 * The fsync at the end still tells the worker of every error: its descriptor was opened before the writes. A worker that is killed
 * before that can't tell anybody, and the system tells nobody twice: so a failed flush is told to whoever made this.
 */
export class EarlyFlushes {
  readonly #clock: Clock
  readonly #paths: StorePaths
  readonly #onFailed: (cellId: string, error: unknown) => void
  /** Cells that a worker works long for, and how many flushes they may have. */
  readonly #waiting = new Map<string, number>()
  /** Epoch milliseconds of the last change that was flushed, by file. */
  readonly #flushed = new LruCache<number>(FILES_MAX)
  /** Bytes at the last look, by file. */
  readonly #sizes = new LruCache<number>(FILES_MAX)
  /** Of the cell whose turn it is. */
  #current: Promise<void> | undefined

  /** @param onFailed what the cell's files hold may be in memory alone, though a later fsync of them succeeds; must not throw */
  constructor(clock: Clock, paths: StorePaths, onFailed: (cellId: string, error: unknown) => void) {
    this.#clock = clock
    this.#paths = paths
    this.#onFailed = onFailed
  }

  /** Call it again and again while a worker works for the cell. One file is flushed at a time: others need the thread pool, too. */
  look(cellId: string): void {
    this.#waiting.set(cellId, FLUSHES_A_LOOK)
    if (this.#current === undefined) void this.#run()
  }

  /** Resolves when the flush that is under way is over; undefined if none is. */
  get underWay(): Promise<void> | undefined {
    return this.#current
  }

  /** Call it when a worker has ended: no other flush begins before the next look. @returns as {@link underWay} */
  finish(): Promise<void> | undefined {
    this.#waiting.clear()
    return this.#current
  }

  async #run(): Promise<void> {
    for (const [cellId, flushes] of this.#waiting) {
      this.#waiting.delete(cellId)
      // Before the turn, and not after it: the worker may have ended meanwhile.
      if (flushes > 1) this.#waiting.set(cellId, flushes - 1)
      this.#current = this.#flushCell(cellId)
      await this.#current
    }
    this.#current = undefined
  }

  async #flushCell(cellId: string): Promise<void> {
    const { wal, database } = this.#paths.cell(cellId)
    let hasFlushed = false
    for (const file of [wal, database]) {
      try {
        if (await this.#flush(file)) hasFlushed = true
      } catch (error) {
        // The file is gone, for example.
        if (DISK_ERRORS.includes((error as NodeJS.ErrnoException).code)) this.#onFailed(cellId, error)
      }
    }
    if (!hasFlushed) this.#waiting.delete(cellId)
  }

  async #flush(file: string): Promise<boolean> {
    const { size, mtimeMs } = await stat(file)
    if (!this.#isWritten(file, size) || this.#flushed.get(file) === mtimeMs) return false
    this.#flushed.set(file, mtimeMs)
    // Only workers have cells open: nobody's locks are dropped here as the file is closed (invariant 4).
    await using opened = await open(file, 'r')
    const held = [...new Set([file, ...(await this.#nextFile())])]
    const stored = opened.datasync()
    // The last read of a file may wait for its lock, and nobody waits for that.
    void holdWriters(this.#clock, held, stored)
    await stored
    return true
  }

  /** Whether there may be much to flush. A log that is being cut becomes shorter, and its lock is held for long. */
  #isWritten(file: string, size: number): boolean {
    const isCut = size < (this.#sizes.get(file) ?? 0)
    this.#sizes.set(file, size)
    return size >= FROM_BYTES && !isCut
  }

  /** What another cell has written is flushed after this: it must not become more meanwhile. A short file is in nobody's way. */
  async #nextFile(): Promise<string[]> {
    for (const cellId of this.#waiting.keys()) {
      const { wal } = this.#paths.cell(cellId)
      const found = await stat(wal).catch(() => undefined)
      if (found !== undefined && this.#isWritten(wal, found.size)) return [wal]
    }
    return []
  }
}
