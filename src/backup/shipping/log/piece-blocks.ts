import fs from 'node:fs'
import {
  FRAME_HEADER_BYTES,
  parseWalHeader,
  WAL_HEADER_BYTES,
  walBytes,
} from '../../../engine/wal/wal-file.ts'
import { TAR_BLOCK_BYTES, tarBytes, tarHeader, tarPadding } from '../../archive/tar-entry.ts'
import { allocateBlock, release } from '../../archive/zstd/block-memory.ts'
import type { LogPiece } from '../../changes/log/cell-log.ts'
import type { CompressedBlocks } from './compressed-blocks.ts'

/** Plain bytes of a block. Most pieces are in one block, so that a restore of their cell reads no more than that. */
const BLOCK_BYTES = 1_048_576

/** Where a member's bytes begin, counted from the first entry of a piece; and how many there are. */
export interface MemberPlace {
  offset: number
  size: number
}

/**
 * The entries of pieces in the tar of a log object, compressed while they are read: the plain bytes of a tick take much memory, and
 * most pages are in them again and again. A piece whose WAL was reset meanwhile is taken back: for that, one that has no
 * room left in a block begins the next one.
 */
export class PieceBlocks {
  readonly #blocks: CompressedBlocks
  readonly #mtimeMs: number
  /** One is filled while the other one is compressed. */
  #filling: Buffer = allocateBlock(BLOCK_BYTES)
  #compressing: Buffer | undefined
  #length = 0
  /** Of the entries so far. */
  #size = 0

  constructor(blocks: CompressedBlocks, mtimeMs: number) {
    this.#blocks = blocks
    this.#mtimeMs = mtimeMs
  }

  /**
   * Adds a piece.
   *
   * @returns undefined if the WAL was reset or has gone; its bytes are in a segment then
   * @throws the file system's error if the file can't be read
   */
  async add(name: string, piece: LogPiece): Promise<MemberPlace | undefined> {
    using file = openPiece(piece)
    if (file === undefined) return undefined
    if (this.#length + tarBytes(file.size) > BLOCK_BYTES) await this.#endBlock()
    const before = { count: this.#blocks.count, length: this.#length }
    let isWhole = false
    try {
      await this.#fill(tarHeader(name, file.size, this.#mtimeMs))
      isWhole = (await this.#read(file)) && file.isStill()
    } finally {
      if (!isWhole) await this.#takeBack(before)
    }
    if (!isWhole) return undefined
    await this.#fill(Buffer.alloc(tarPadding(file.size)))
    const offset = this.#size + TAR_BLOCK_BYTES
    this.#size += tarBytes(file.size)
    return { offset, size: file.size }
  }

  /** Adds what follows the pieces in the tar. */
  async end(bytes: Buffer): Promise<void> {
    await this.#fill(bytes)
    await this.#endBlock()
  }

  /** Frees its memory. Call it once nothing is compressed any more. */
  dispose(): void {
    release(this.#filling)
    if (this.#compressing !== undefined) release(this.#compressing)
  }

  /** @returns false if the file has become shorter */
  async #read(file: PieceFile): Promise<boolean> {
    for (let at = 0; at < file.size; ) {
      const room = await this.#room()
      const part = room.subarray(0, file.size - at)
      if (!file.read(part, at)) return false
      this.#length += part.length
      at += part.length
    }
    return true
  }

  async #fill(bytes: Buffer): Promise<void> {
    for (let at = 0; at < bytes.length; ) {
      const copied = bytes.copy(await this.#room(), 0, at)
      this.#length += copied
      at += copied
    }
  }

  /** At least one byte. */
  async #room(): Promise<Buffer> {
    if (this.#length === BLOCK_BYTES) await this.#endBlock()
    return this.#filling.subarray(this.#length)
  }

  async #endBlock(): Promise<void> {
    if (this.#length === 0) return
    const filled = this.#filling
    await this.#blocks.add(filled.subarray(0, this.#length))
    // The block before it is compressed.
    this.#filling = this.#compressing ?? allocateBlock(BLOCK_BYTES)
    this.#compressing = filled
    this.#length = 0
  }

  async #takeBack({ count, length }: { count: number; length: number }): Promise<void> {
    const hasBlocks = this.#blocks.count > count
    if (hasBlocks) await this.#blocks.truncate(count)
    this.#length = hasBlocks ? 0 : length
  }
}

function openPiece(piece: LogPiece): PieceFile | undefined {
  try {
    return new PieceFile(piece)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined
    throw error
  }
}

/**
 * The WAL that a piece is in. SQLite may reset it at any time: what was read counts if the WAL {@link isStill} the same
 * afterwards. Reads block, because asking a thread costs ten times as much as a few pages that are in the page cache.
 */
class PieceFile implements Disposable {
  readonly size: number
  readonly #piece: LogPiece
  readonly #begin: number
  readonly #fd: number

  /** @throws the file system's error */
  constructor(piece: LogPiece) {
    this.#piece = piece
    // A piece from the first frame on has the WAL's header, too.
    this.#begin = piece.from === 0 ? 0 : walBytes(piece.from, piece.pageSize)
    this.size = walBytes(piece.to, piece.pageSize) - this.#begin
    this.#fd = fs.openSync(piece.path, 'r')
  }

  /** Fills `bytes` with those of the piece from `offset` on. @returns false if the file is shorter: the WAL was reset */
  read(bytes: Buffer, offset: number): boolean {
    return this.#read(bytes, this.#begin + offset)
  }

  /**
   * SQLite writes the header of the next generation before its first frame. The last frame must end a commit, too, since readers
   * go back to one otherwise.
   */
  isStill(): boolean {
    const { salts, pageSize, to } = this.#piece
    const frame = Buffer.alloc(FRAME_HEADER_BYTES)
    if (!this.#read(frame, walBytes(to - 1, pageSize))) return false
    if (frame.readUInt32BE(4) === 0 || frame.toString('hex', 8, 16) !== salts) return false
    const head = Buffer.alloc(WAL_HEADER_BYTES)
    if (!this.#read(head, 0)) return false
    const header = parseWalHeader(head)
    return header?.salts === salts && header.pageSize === pageSize
  }

  [Symbol.dispose](): void {
    fs.closeSync(this.#fd)
  }

  #read(bytes: Buffer, position: number): boolean {
    for (let at = 0; at < bytes.length; ) {
      const read = fs.readSync(this.#fd, bytes, at, bytes.length - at, position + at)
      if (read === 0) return false
      at += read
    }
    return true
  }
}
