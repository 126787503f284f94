import fs from 'node:fs'
import {
  FRAME_HEADER_BYTES,
  parseWalHeader,
  WAL_HEADER_BYTES,
  walBytes,
} from '../../../engine/wal/wal-file.ts'
import type { LogPiece } from '../../changes/log/cell-log.ts'

/**
 * The WAL that a piece is in. SQLite may reset it at any time: what was read counts if the WAL {@link isStill} the same
 * afterwards. Reads block, because asking a thread costs ten times as much as a few pages that are in the page cache.
 */
export class PieceFile implements Disposable {
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
