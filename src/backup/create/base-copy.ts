import { randomUUID } from 'node:crypto'
import fs from 'node:fs/promises'
import path from 'node:path'
import { FILE_MODE, makeDirectory } from '../../base/files/durable-files.ts'
import { writeAll } from '../../base/files/write-all.ts'
import { redoLog } from '../../engine/wal/redo-log.ts'
import type { MemberSource } from '../archive/archive-writer.ts'
import { DATABASE_MEMBER } from '../archive/manifest.ts'
import { readAll } from '../archive/spool.ts'
import { release } from '../archive/zstd/block-memory.ts'
import type { Segment } from '../changes/log/segments.ts'
import type { DatabaseReader } from './database-reader.ts'

const CHUNK_BYTES = 1_048_576

function allocate(size: number): Buffer {
  return Buffer.allocUnsafeSlow(Math.min(CHUNK_BYTES, size))
}

export interface CopyProgress {
  signal?: AbortSignal | undefined
  /** Called with the bytes copied so far, and how many there are. */
  onProgress?: ((bytes: number, total: number) => void) | undefined
}

/**
 * A copy of a database that is written meanwhile (docs/decisions/0011). Each page is of some moment of the copy; then the
 * logs of that time are applied, which hold every page that was written. The result is the database at the cut.
 */
export class BaseCopy {
  readonly path: string
  #handle: fs.FileHandle | undefined
  #size = 0

  constructor(directory: string) {
    this.path = path.join(directory, `${randomUUID()}.db`)
  }

  /** Bytes of the database. */
  get size(): number {
    return this.#size
  }

  /**
   * Reads each part while the one before it is written.
   *
   * @param size the length of the file when the copy begins: what it grows by is in the logs, and so is its new end
   */
  async read(reader: DatabaseReader, size: number, { signal, onProgress }: CopyProgress = {}): Promise<void> {
    makeDirectory(path.dirname(this.path))
    this.#handle = await fs.open(this.path, 'wx+', FILE_MODE)
    this.#size = size
    let [chunk, other] = [allocate(size), allocate(size)]
    let writing = Promise.resolve()
    try {
      for (let at = 0; at < size; ) {
        signal?.throwIfAborted()
        const bytes = chunk.subarray(0, Math.min(chunk.length, size - at))
        const read = await reader.read(bytes, at)
        await writing
        writing = writeAll(this.#handle, bytes.subarray(0, read), at)
        // Awaited with the next part. Until then, a failure must not count as unhandled.
        writing.catch(() => {})
        ;[chunk, other] = [other, chunk]
        at += read
        onProgress?.(at, size)
        // A checkpoint has cut the file off here.
        if (read < bytes.length) break
      }
    } finally {
      await writing.finally(() => [chunk, other].forEach(release))
    }
    await this.#handle.truncate(size)
  }

  /** Applies the logs that were kept during the copy. */
  async redo(segments: readonly Segment[], signal?: AbortSignal): Promise<void> {
    const handle = this.#opened()
    for (const { path: log, frames } of segments) {
      signal?.throwIfAborted()
      this.#size = await redoLog(log, frames, handle)
    }
    await handle.truncate(this.#size)
  }

  /** Reads the finished copy. */
  source(): MemberSource {
    const handle = this.#opened()
    return {
      name: DATABASE_MEMBER,
      size: this.#size,
      read: (bytes, offset) => readAll(handle, bytes, offset),
    }
  }

  async dispose(): Promise<void> {
    const handle = this.#handle
    this.#handle = undefined
    try {
      await handle?.close()
    } finally {
      // The last two are SQLite's, if a check of the copy was interrupted.
      for (const suffix of ['', '-wal', '-shm']) await fs.rm(this.path + suffix, { force: true })
    }
  }

  #opened(): fs.FileHandle {
    if (this.#handle === undefined) throw new Error('The copy was not read.')
    return this.#handle
  }
}
