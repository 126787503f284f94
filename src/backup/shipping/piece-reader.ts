import { randomUUID } from 'node:crypto'
import fs from 'node:fs/promises'
import path from 'node:path'
import { FILE_MODE, makeDirectory } from '../../base/durable-files.ts'
import { FRAME_HEADER_BYTES, parseWalHeader, WAL_HEADER_BYTES, walBytes } from '../../engine/wal-file.ts'
import type { MemberSource } from '../archive/archive-writer.ts'
import { FileEnded, readAll, writeAll } from '../archive/spool.ts'
import type { LogPiece } from '../changes/cell-log.ts'

/** So much is kept in memory; what follows goes to a file. */
const MEMORY_BYTES_MAX = 8 * 1_048_576
const CHUNK_BYTES = 1_048_576

/** The bytes of a piece, safe from what happens to the file that they were read from. */
export type PieceBytes = Pick<MemberSource, 'size' | 'read'>

/**
 * Reads pieces out of WALs that SQLite may reset at any time, before the manifest says that it has them. Small ones stay in
 * memory, the others in a file in the spool.
 */
export class PieceReader {
  readonly #directory: string
  #memoryBytes = 0
  #file: { path: string; handle: fs.FileHandle; size: number } | undefined

  constructor(directory: string) {
    this.#directory = directory
  }

  /**
   * @returns undefined if the WAL was reset or has gone; its bytes are in a segment then
   * @throws the file system's error if the file can't be read
   */
  async read(piece: LogPiece): Promise<PieceBytes | undefined> {
    const begin = pieceBegin(piece)
    const size = walBytes(piece.to, piece.pageSize) - begin
    let handle: fs.FileHandle
    try {
      handle = await fs.open(piece.path, 'r')
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined
      throw error
    }
    try {
      const bytes = await this.#copy(handle, begin, size)
      return (await isStill(handle, piece)) ? bytes : undefined
    } catch (error) {
      // The file has become shorter.
      if (error instanceof FileEnded) return undefined
      throw error
    } finally {
      await handle.close()
    }
  }

  /** Removes the file, also after an error. */
  async dispose(): Promise<void> {
    const file = this.#file
    this.#file = undefined
    if (file === undefined) return
    await file.handle.close()
    await fs.rm(file.path, { force: true })
  }

  async #copy(handle: fs.FileHandle, begin: number, size: number): Promise<PieceBytes> {
    if (this.#memoryBytes + size <= MEMORY_BYTES_MAX) {
      const bytes = Buffer.allocUnsafe(size)
      await readAll(handle, bytes, begin)
      this.#memoryBytes += size
      return { size, read: async (into, offset) => void bytes.copy(into, 0, offset) }
    }
    const file = await this.#openFile()
    const start = file.size
    const chunk = Buffer.allocUnsafe(Math.min(CHUNK_BYTES, size))
    for (let at = 0; at < size; at += chunk.length) {
      const bytes = chunk.subarray(0, Math.min(chunk.length, size - at))
      await readAll(handle, bytes, begin + at)
      await writeAll(file.handle, bytes, start + at)
    }
    file.size += size
    return { size, read: (into, offset) => readAll(file.handle, into, start + offset) }
  }

  async #openFile() {
    if (this.#file === undefined) {
      makeDirectory(this.#directory)
      const file = path.join(this.#directory, `${randomUUID()}.wal`)
      this.#file = { path: file, handle: await fs.open(file, 'wx+', FILE_MODE), size: 0 }
    }
    return this.#file
  }
}

/** A piece from the first frame on has the WAL's header, too. */
function pieceBegin({ from, pageSize }: LogPiece): number {
  return from === 0 ? 0 : walBytes(from, pageSize)
}

/**
 * Whether the WAL has not been reset by now: SQLite writes the header of the next generation before its first frame. The
 * last frame must end a commit, too, since readers go back to one otherwise.
 */
async function isStill(handle: fs.FileHandle, { salts, pageSize, to }: LogPiece): Promise<boolean> {
  const frame = Buffer.alloc(FRAME_HEADER_BYTES)
  await readAll(handle, frame, walBytes(to - 1, pageSize))
  if (frame.readUInt32BE(4) === 0 || frame.toString('hex', 8, 16) !== salts) return false
  const head = Buffer.alloc(WAL_HEADER_BYTES)
  await readAll(handle, head, 0)
  const header = parseWalHeader(head)
  return header?.salts === salts && header.pageSize === pageSize
}
