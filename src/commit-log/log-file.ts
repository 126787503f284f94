import { randomBytes } from 'node:crypto'
import fs from 'node:fs'
import path from 'node:path'
import { promisify } from 'node:util'
import { FILE_MODE, fsyncDirectoryAside, makeDirectory } from '../base/files/durable-files.ts'
import { writeAllSync } from '../base/files/write-all.ts'
import { freeBytes } from '../base/machine/free-bytes.ts'
import { ScratchMemory } from '../base/machine/scratch-memory.ts'
import {
  batchBytes,
  encodeBatch,
  encodeFileHead,
  GENERATION_BYTES,
  HEAD_BYTES,
  type LogRecord,
} from './log-format.ts'

/** WALs that are fsynced at the same time, in the thread pool. */
export const SYNCS_AT_ONCE = 4

const ZEROS = Buffer.alloc(1_048_576)
/** For one batch at a time, of whichever file. Most are shorter. */
const memory = new ScratchMemory(1_048_576)
const write = promisify(fs.write)
const fsync = promisify(fs.fsync)

/**
 * One file of a process's log. All of its blocks are written once, with zeros, so that a batch later costs no more than its
 * own bytes: no fdatasync has to store where they are, and no full disk can refuse them.
 */
export class LogFile {
  readonly path: string
  readonly size: number
  readonly #fd: number
  #generation: Buffer = Buffer.alloc(0)
  #sequence = 0
  #end = HEAD_BYTES

  private constructor(file: string, size: number, fd: number) {
    this.path = file
    this.size = size
    this.#fd = fd
  }

  /**
   * Makes a file that is ready for batches. If that fails, none is left.
   *
   * @throws the system's error; `ENOSPC` before a byte is written if the file would take more than half of what the disk has left
   */
  static async create(file: string, size: number): Promise<LogFile> {
    makeDirectory(path.dirname(file))
    checkRoom(path.dirname(file), size)
    const fd = fs.openSync(file, 'wx', FILE_MODE)
    const made = new LogFile(file, size, fd)
    try {
      for (let at = 0; at < size; ) {
        const { bytesWritten } = await write(fd, ZEROS, 0, Math.min(ZEROS.length, size - at), at)
        at += bytesWritten
        // Piece by piece: the file system would make the fsyncs of others wait for all of it.
        await fsync(fd)
      }
      await made.renew()
      await fsyncDirectoryAside(path.dirname(file))
      return made
    } catch (error) {
      made.remove()
      throw error
    }
  }

  /** How many bytes of batches it still takes. */
  get room(): number {
    return this.size - this.#end
  }

  /** Makes it empty: what it holds is needed no more. Durable before its first batch. */
  async renew(): Promise<void> {
    this.#generation = randomBytes(GENERATION_BYTES)
    this.#sequence = 0
    this.#end = HEAD_BYTES
    const head = encodeFileHead(this.#generation, this.size)
    const { bytesWritten } = await write(this.#fd, head, 0, head.length, 0)
    if (bytesWritten < head.length) throw new Error('The head of a log file was not written.')
    await fsync(this.#fd)
  }

  /** Writes a batch, and returns once it is on disk. @throws the system's error; then it must not be used any more */
  append(records: readonly LogRecord[], time: number): void {
    memory.reset()
    const head = { generation: this.#generation, sequence: this.#sequence + 1, time }
    const batch = encodeBatch(records, head, memory.take(batchBytes(records)))
    writeAllSync(this.#fd, batch, this.#end)
    fs.fdatasyncSync(this.#fd)
    this.#sequence++
    this.#end += batch.length
  }

  close(): void {
    fs.closeSync(this.#fd)
  }

  remove(): void {
    try {
      fs.rmSync(this.path, { force: true })
    } finally {
      this.close()
    }
  }
}

/** All of a file is written when it is made: the cells would find the disk full meanwhile, and again with each try. */
function checkRoom(directory: string, bytes: number): void {
  const free = freeBytes(directory)
  if (bytes <= free / 2) return
  const message = `A file of the commit log has ${bytes} bytes, and the disk has ${free}, of which half stays free.`
  throw Object.assign(new Error(message), { code: 'ENOSPC' })
}
