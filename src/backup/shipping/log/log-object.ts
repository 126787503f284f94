import { turnOfTheLoop } from '../../../base/clock.ts'
import { encodeJsonMember, MANIFEST_MEMBER } from '../../archive/manifest.ts'
import { Spool } from '../../archive/spool.ts'
import { TAR_END_BYTES, tarHeader, tarPadding } from '../../archive/tar-entry.ts'
import { compressBlock, encodeSeekTable } from '../../archive/zstd/seekable-zstd.ts'
import type { LogPiece, ShippedPlace, UnshippedLog } from '../../changes/log/cell-log.ts'
import type { ObjectBody } from '../../object-store/object-store.ts'
import { logKey } from '../../versions/object-keys.ts'
import { CompressedBlocks } from './compressed-blocks.ts'
import { type CellPieces, LOG_FORMAT, type LogManifest, type StoredPiece } from './log-manifest.ts'
import { type MemberPlace, PieceBlocks } from './piece-blocks.ts'

const SEQUENCE_DIGITS = 12
/** To read in one turn of the event loop. */
const PIECES_PER_TURN = 16

/** What a log object is made of. */
export interface LogOrder extends Pick<LogManifest, 'store_id' | 'epoch' | 'number' | 'previous'> {
  logs: readonly UnshippedLog[]
  /** Epoch milliseconds: what was committed before it is in `logs` or stored; undefined if some of it is not. */
  completeTo: number | undefined
  /** Epoch milliseconds. */
  now: number
}

export interface LogSpool {
  directory: string
  signal?: AbortSignal | undefined
}

/** A finished log object, which is not stored yet. */
export interface LogObject {
  manifest: LogManifest
  body: ObjectBody
  /** In hexadecimal. */
  sha256: string
  /** Where the cells are once the object is stored. */
  places: ShippedPlace[]
  /** Removes its file. */
  dispose(): Promise<void>
}

export interface MadeLogObject {
  /** Undefined if nothing could be read. */
  object: LogObject | undefined
  /** Cells of which something is not in it: their WALs were reset meanwhile, or a file is damaged. */
  leftOut: LeftOut[]
  /** Cells whose files could not be read. */
  unreadable: { cellId: string; error: unknown }[]
}

/** What a cell was collected for is not in its file. What comes after the piece could not be applied without it. */
export interface LeftOut {
  cellId: string
  piece: LogPiece
}

interface ReadLogs extends Omit<MadeLogObject, 'object'> {
  read: ReadLog[]
}

interface ReadLog {
  log: UnshippedLog
  pieces: ReadPiece[]
}

interface ReadPiece {
  piece: LogPiece
  name: string
  place: MemberPlace
}

/** Reads the pieces, and writes them into one archive. */
export async function makeLogObject(
  order: LogOrder,
  { directory, signal }: LogSpool,
): Promise<MadeLogObject> {
  const blocks = new CompressedBlocks(directory)
  const members = new PieceBlocks(blocks, order.now)
  const spool = new Spool(directory)
  try {
    const { read, leftOut, unreadable } = await readLogs(order.logs, members, signal)
    if (read.length === 0) return { object: undefined, leftOut, unreadable }
    await members.end(Buffer.alloc(TAR_END_BYTES))
    const isWhole = leftOut.length === 0 && unreadable.length === 0
    const manifest = manifestOf(isWhole ? order : { ...order, completeTo: undefined }, read)
    await writeObject(spool, manifestEntry(manifest, order.now), blocks)
    const { body, sha256 } = await spool.finish()
    const places = read.map(placeAfter)
    const object = { manifest, body, sha256, places, dispose: () => spool.dispose() }
    return { object, leftOut, unreadable }
  } catch (error) {
    await spool.dispose()
    throw error
  } finally {
    await blocks.dispose()
    members.dispose()
  }
}

/** One after the other, with turns for other work in between. */
async function readLogs(
  logs: readonly UnshippedLog[],
  members: PieceBlocks,
  signal: AbortSignal | undefined,
): Promise<ReadLogs> {
  const result: ReadLogs = { read: [], leftOut: [], unreadable: [] }
  let count = 0
  for (const log of logs) {
    const pieces: ReadPiece[] = []
    try {
      for (const piece of log.pieces) {
        if (count++ % PIECES_PER_TURN === PIECES_PER_TURN - 1) await turnOfTheLoop()
        signal?.throwIfAborted()
        const name = memberName(log, piece)
        const place = await members.add(name, piece)
        if (place === undefined) {
          result.leftOut.push({ cellId: log.cellId, piece })
          break
        }
        pieces.push({ piece, name, place })
      }
    } catch (error) {
      signal?.throwIfAborted()
      result.unreadable.push({ cellId: log.cellId, error })
    }
    if (pieces.length > 0) result.read.push({ log, pieces })
  }
  return result
}

function manifestEntry(manifest: LogManifest, now: number): Buffer {
  const json = encodeJsonMember(manifest, true)
  return Buffer.concat([
    tarHeader(MANIFEST_MEMBER, json.length, now),
    json,
    Buffer.alloc(tarPadding(json.length)),
  ])
}

/** The manifest is a block of its own, so that it can be read without the rest. */
async function writeObject(spool: Spool, manifest: Buffer, blocks: CompressedBlocks): Promise<void> {
  const first = await compressBlock(manifest)
  await spool.write(first)
  const sizes = await blocks.writeTo((bytes) => spool.write(bytes))
  await spool.write(encodeSeekTable([{ compressed: first.length, plain: manifest.length }, ...sizes]))
}

function manifestOf(
  { store_id, epoch, number, previous, completeTo, now }: LogOrder,
  read: readonly ReadLog[],
): LogManifest {
  const [from, last] = timesOf(read)
  return {
    format: LOG_FORMAT,
    kind: 'log',
    store_id,
    key: logKey({ epoch, number }),
    epoch,
    number,
    previous,
    from,
    to: Math.max(last, completeTo ?? last),
    complete: completeTo !== undefined,
    // What some cells committed after it may be here, too; of others it is not.
    ...(completeTo !== undefined && { complete_to: completeTo }),
    created_at: new Date(now).toISOString(),
    cells: cellsOf(read),
  }
}

/** When the first and the last commit were made. The clock may have stepped back between them. */
function timesOf(read: readonly ReadLog[]): [first: number, last: number] {
  let [first, last] = [Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY]
  for (const { pieces } of read)
    for (const { piece } of pieces)
      for (const [, time] of piece.commits) {
        first = Math.min(first, time)
        last = Math.max(last, time)
      }
  return [first, last]
}

function cellsOf(read: readonly ReadLog[]): CellPieces[] {
  return read.map(({ log, pieces }) => ({
    cell_id: log.cellId,
    account_id: log.accountId ?? null,
    history: log.history,
    pieces: pieces.map(({ piece, name, place }): StoredPiece => {
      const { sequence, salts, pageSize, from, to, commits } = piece
      return { member: name, ...place, sequence, salts, page_size: pageSize, from, to, commits }
    }),
  }))
}

/** Of at most 100 characters: a longer name would take another entry in the tar. */
function memberName({ cellId }: UnshippedLog, { sequence, salts, from }: LogPiece): string {
  return `${cellId}/${String(sequence).padStart(SEQUENCE_DIGITS, '0')}-${salts}-${from}.wal`
}

function placeAfter({ log: { cellId, history }, pieces }: ReadLog): ShippedPlace {
  const { sequence, to } = (pieces.at(-1) as ReadPiece).piece
  return { cellId, history, sequence, frames: to }
}
