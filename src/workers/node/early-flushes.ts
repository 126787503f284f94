import { open, stat } from 'node:fs/promises'
import { SYNC_EVERY_BYTES } from '../../base/durable-files.ts'
import { LruCache } from '../../base/lru-cache.ts'
import type { StorePaths } from '../../base/store-paths.ts'

/** A shorter file never holds up others for long. */
const FROM_BYTES = SYNC_EVERY_BYTES
/** Files whose last changes are remembered: more than workers write at a time. */
const FILES_MAX = 256

/**
 * Has what long work writes stored while it is written. SQLite leaves a large transaction, or a checkpoint, to one fsync at its
 * end, and the small fsyncs of all other cells wait behind that in the disk's queue: up to 230 ms for 350 MB, measured. In
 * pieces, they wait for one piece.
 *
 * The fsync at the end still tells of every error: its descriptor was opened before the writes.
 */
export class EarlyFlushes {
  readonly #paths: StorePaths
  /** Cells that a worker works long for. */
  readonly #waiting = new Set<string>()
  /** Epoch milliseconds of the last change that was flushed, by file. */
  readonly #flushed = new LruCache<number>(FILES_MAX)
  #isRunning = false

  constructor(paths: StorePaths) {
    this.#paths = paths
  }

  /** Call it again and again while a worker works for the cell. One file is flushed at a time: others need the thread pool, too. */
  look(cellId: string): void {
    this.#waiting.add(cellId)
    if (!this.#isRunning) void this.#run()
  }

  async #run(): Promise<void> {
    this.#isRunning = true
    for (const cellId of this.#waiting) {
      this.#waiting.delete(cellId)
      const { wal, database } = this.#paths.cell(cellId)
      await this.#flush(wal)
      await this.#flush(database)
    }
    this.#isRunning = false
  }

  /** Never rejects: if the disk fails, the work itself is told. */
  async #flush(file: string): Promise<void> {
    try {
      const { size, mtimeMs } = await stat(file)
      if (size < FROM_BYTES || this.#flushed.get(file) === mtimeMs) return
      this.#flushed.set(file, mtimeMs)
      // Only workers have cells open: nobody's locks are dropped here as the file is closed (invariant 4).
      await using opened = await open(file, 'r')
      await opened.datasync()
    } catch {
      // Gone, for example.
    }
  }
}
