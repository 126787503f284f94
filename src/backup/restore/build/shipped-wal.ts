import fs from 'node:fs/promises'
import { FILE_MODE } from '../../../base/files/durable-files.ts'
import { writeAll } from '../../../base/files/write-all.ts'
import { walBytes } from '../../../engine/wal/wal-file.ts'
import { corrupt } from '../../archive/backup-errors.ts'
import type { PieceOfWal } from '../../shipping/cell-pieces.ts'
import type { WalPart } from './restore-database.ts'

/** The first bytes of a piece, in chunks. */
export type ReadPiece = (piece: PieceOfWal, bytes: number) => AsyncIterable<Buffer>

/** Makes a write-ahead log of its pieces. @returns which object has which frames */
export async function writeWal(
  file: string,
  pieces: readonly PieceOfWal[],
  read: ReadPiece,
): Promise<WalPart[]> {
  const handle = await fs.open(file, 'w', FILE_MODE)
  try {
    let at = 0
    for (const each of pieces) {
      const end = walBytes(each.to, each.piece.page_size)
      const begin = at
      for await (const chunk of read(each, end - begin)) {
        await writeAll(handle, chunk, at)
        at += chunk.length
      }
      if (at !== end) throw corrupt(each.ref.key, `its member ${each.piece.member} is too short`)
    }
    return pieces.map(({ ref, to }) => ({ to, member: ref.key }))
  } finally {
    await handle.close()
  }
}

/** Bytes of a piece up to its last frame that counts. */
export function pieceBytes({ piece, to }: PieceOfWal): number {
  const begin = piece.from === 0 ? 0 : walBytes(piece.from, piece.page_size)
  return walBytes(to, piece.page_size) - begin
}
