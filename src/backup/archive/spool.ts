import { createHash, randomUUID } from 'node:crypto'
import fs from 'node:fs/promises'
import path from 'node:path'
import { FILE_MODE, makeDirectory, SYNC_EVERY_BYTES } from '../../base/files/durable-files.ts'
import { writeAll } from '../../base/files/write-all.ts'
import { bufferBody, type ObjectBody } from '../object-store/object-store.ts'
import { release } from './zstd/block-memory.ts'

/** Up to this size a finished object is kept in memory: most cells are small, and a file costs two fsyncs. */
const MEMORY_BYTES_MAX = 1_048_576

/**
 * An object being made, before it is stored: in memory while small, then in a file beside the data. So a slow uplink
 * holds nothing of the cell, the length is known before the upload, and an upload can be repeated.
 */
export class Spool {
  readonly #directory: string
  readonly #hash = createHash('sha256')
  #chunks: Buffer[] = []
  #size = 0
  #file: { path: string; handle: fs.FileHandle } | undefined
  #synced = 0
  #syncing: Promise<void> = Promise.resolve()

  constructor(directory: string) {
    this.#directory = directory
  }

  get size(): number {
    return this.#size
  }

  /** Takes ownership of the bytes and their memory. */
  async write(bytes: Buffer): Promise<void> {
    this.#hash.update(bytes)
    this.#size += bytes.length
    if (this.#file !== undefined) {
      await writeAll(this.#file.handle, bytes)
      release(bytes)
      if (this.#size - this.#synced >= SYNC_EVERY_BYTES) await this.#beginSync(this.#file.handle)
      return
    }
    this.#chunks.push(bytes)
    if (this.#size > MEMORY_BYTES_MAX) await this.#spill()
  }

  /** @returns the finished body, fsynced if it is a file, and its SHA-256 in hexadecimal */
  async finish(): Promise<{ body: ObjectBody; sha256: string }> {
    const sha256 = this.#hash.digest('hex')
    if (this.#file === undefined) return { body: bufferBody(Buffer.concat(this.#chunks, this.#size)), sha256 }
    const { handle, path: file } = this.#file
    await this.#syncing
    await handle.sync()
    const read = async (offset: number, length: number) => {
      const bytes = Buffer.allocUnsafe(length)
      await readAll(handle, bytes, offset)
      return bytes
    }
    return { body: { size: this.#size, path: file, read }, sha256 }
  }

  /** Removes the file. Call it when the body is no longer needed, also after an error. */
  async dispose(): Promise<void> {
    const file = this.#file
    this.#file = undefined
    this.#chunks = []
    await this.#syncing.catch(() => {})
    try {
      await file?.handle.close()
    } finally {
      if (file !== undefined) await fs.rm(file.path, { force: true })
    }
  }

  /** One at a time. A failure is that of the next one, or of the end. */
  async #beginSync(handle: fs.FileHandle): Promise<void> {
    await this.#syncing
    this.#synced = this.#size
    this.#syncing = handle.datasync()
    this.#syncing.catch(() => {})
  }

  async #spill(): Promise<void> {
    makeDirectory(this.#directory)
    const file = path.join(this.#directory, `${randomUUID()}.tar.zst`)
    this.#file = { path: file, handle: await fs.open(file, 'wx+', FILE_MODE) }
    for (const chunk of this.#chunks) {
      await writeAll(this.#file.handle, chunk)
      release(chunk)
    }
    this.#chunks = []
  }
}

/** A file is shorter than it was. */
class FileEnded extends Error {
  constructor() {
    super('The file ended early.')
  }
}

/** Fills `bytes` from `offset` on. @throws `FileEnded` for a shorter file: that was changed during the read */
export async function readAll(handle: fs.FileHandle, bytes: Buffer, offset: number): Promise<void> {
  let at = 0
  while (at < bytes.length) {
    const { bytesRead } = await handle.read(bytes, at, bytes.length - at, offset + at)
    if (bytesRead === 0) throw new FileEnded()
    at += bytesRead
  }
}
