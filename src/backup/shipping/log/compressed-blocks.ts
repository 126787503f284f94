import { randomUUID } from 'node:crypto'
import fs from 'node:fs/promises'
import path from 'node:path'
import { FILE_MODE, makeDirectory } from '../../../base/files/durable-files.ts'
import { writeAll } from '../../../base/files/write-all.ts'
import { readAll } from '../../archive/spool.ts'
import { release } from '../../archive/zstd/block-memory.ts'
import { type BlockSizes, compressBlock } from '../../archive/zstd/seekable-zstd.ts'

/** So much is kept in memory; what follows goes to a file. */
const MEMORY_BYTES_MAX = 8 * 1_048_576

/** In memory, or in the file. */
interface StoredBlock extends BlockSizes {
  bytes: Buffer | undefined
  /** Where it begins in the file. */
  at: number
}

/** Compressed blocks of an object, until it is known what comes before them. */
export class CompressedBlocks {
  readonly #directory: string
  readonly #blocks: StoredBlock[] = []
  #memoryBytes = 0
  #file: { path: string; handle: fs.FileHandle; size: number } | undefined
  /** The newest block is compressed. */
  #compressed: Promise<void> = Promise.resolve()
  #count = 0

  constructor(directory: string) {
    this.#directory = directory
  }

  get count(): number {
    return this.#count
  }

  /**
   * Adds a block. It is compressed once the blocks before it are, after which this resolves.
   *
   * @param plain must not change until the next call has resolved
   * @throws the file system's error, of this block or of an earlier one
   */
  async add(plain: Buffer): Promise<void> {
    await this.#compressed
    this.#count++
    this.#compressed = this.#compress(plain)
    this.#compressed.catch(() => {})
  }

  /** Forgets all but the first blocks. */
  async truncate(count: number): Promise<void> {
    await this.#compressed
    this.#count = count
    for (const { bytes } of this.#blocks.splice(count)) this.#memoryBytes -= bytes?.length ?? 0
  }

  /** Hands on all blocks in their order. @returns their sizes */
  async writeTo(write: (bytes: Buffer) => Promise<void>): Promise<BlockSizes[]> {
    await this.#compressed
    for (const { bytes, at, compressed } of this.#blocks)
      await write(bytes ?? (await this.#read(at, compressed)))
    return this.#blocks
  }

  /** Removes the file, also after an error. Nothing may be added meanwhile. */
  async dispose(): Promise<void> {
    await this.#compressed.catch(() => {})
    const file = this.#file
    this.#file = undefined
    if (file === undefined) return
    await file.handle.close()
    await fs.rm(file.path, { force: true })
  }

  async #compress(plain: Buffer): Promise<void> {
    const block = await compressBlock(plain)
    const sizes = { plain: plain.length, compressed: block.length }
    if (this.#memoryBytes + block.length <= MEMORY_BYTES_MAX) {
      // Its own memory has room for a block that does not compress.
      this.#blocks.push({ ...sizes, bytes: Buffer.from(block), at: 0 })
      this.#memoryBytes += block.length
    } else {
      const file = await this.#openFile()
      await writeAll(file.handle, block, file.size)
      this.#blocks.push({ ...sizes, bytes: undefined, at: file.size })
      file.size += block.length
    }
    release(block)
  }

  async #read(at: number, length: number): Promise<Buffer> {
    const bytes = Buffer.allocUnsafe(length)
    await readAll((this.#file as { handle: fs.FileHandle }).handle, bytes, at)
    return bytes
  }

  async #openFile() {
    if (this.#file === undefined) {
      makeDirectory(this.#directory)
      const file = path.join(this.#directory, `${randomUUID()}.blocks`)
      this.#file = { path: file, handle: await fs.open(file, 'wx+', FILE_MODE), size: 0 }
    }
    return this.#file
  }
}
