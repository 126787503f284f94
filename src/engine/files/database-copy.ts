import { open } from 'node:fs/promises'
import type { Connection } from '../sqlite.ts'

export interface CopyOptions {
  /** Ends the copy, and removes what it has made. */
  signal?: AbortSignal | undefined
  /** Called with the bytes copied so far, and how many there are. */
  onProgress?: ((bytes: number, total: number) => void) | undefined
}

/** Pages that one turn of the event loop copies: about half a millisecond. */
const PAGES_PER_TURN = 64
/** Bytes after which they are written to the disk, so that the last fsync, which SQLite waits for, has little left. */
const FLUSH_BYTES = 4 * 1_048_576
/** The copy waits for the disk once it is so far ahead of it. */
const AHEAD_BYTES_MAX = 16 * 1_048_576

/**
 * Copies a database into a new file with SQLite's online backup. Whatever the connection changes meanwhile goes into the
 * copy too, so that the copy is the database at the moment in which it is complete; writers never wait for it, and it never
 * begins again.
 *
 * @param pageSize of the database, in bytes
 * @returns false if nothing was copied: a transaction of the connection is open
 * @throws the signal's reason; the driver's errors
 */
export async function copyDatabase(
  connection: Connection,
  target: string,
  pageSize: number,
  { signal, onProgress }: CopyOptions = {},
): Promise<boolean> {
  signal?.throwIfAborted()
  const flush = new Flush(target)
  const { totalPages } = await connection.backup(target, {
    progress: ({ totalPages, remainingPages }) => {
      signal?.throwIfAborted()
      const copied = (totalPages - remainingPages) * pageSize
      onProgress?.(copied, totalPages * pageSize)
      return flush.isFarBehind(copied) ? 0 : PAGES_PER_TURN
    },
  })
  signal?.throwIfAborted()
  await flush.ended
  return totalPages > 0
}

/** Writes a growing file to the disk from time to time, in the thread pool. */
class Flush {
  readonly #file: string
  #flushed = 0
  #running = false
  ended: Promise<void> = Promise.resolve()

  constructor(file: string) {
    this.#file = file
  }

  /** @param bytes length of the file by now */
  isFarBehind(bytes: number): boolean {
    if (!this.#running && bytes - this.#flushed >= FLUSH_BYTES) this.#start(bytes)
    return this.#running && bytes - this.#flushed >= AHEAD_BYTES_MAX
  }

  #start(bytes: number): void {
    this.#running = true
    // It only saves time: if the disk fails, SQLite's own fsync tells.
    this.ended = fsync(this.#file)
      .catch(() => {})
      .then(() => {
        this.#flushed = bytes
        this.#running = false
      })
  }
}

async function fsync(file: string): Promise<void> {
  await using handle = await open(file, 'r+')
  await handle.datasync()
}
