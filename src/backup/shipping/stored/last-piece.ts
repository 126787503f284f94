import { turnOfTheLoop } from '../../../base/clock.ts'
import { isCellError } from '../../../errors.ts'
import type { CallOptions } from '../../object-store/object-store.ts'
import type { StoredPiece } from '../log/log-manifest.ts'
import type { LogRef, LogRefs } from '../log/log-refs.ts'
import type { ReadableLog } from './cell-logs.ts'

const PARALLEL_READS = 16

/** The last piece of a cell in some log objects. */
export interface LastPiece {
  history: string
  piece: StoredPiece
  /** The log object that has it. */
  key: string
}

export interface LastPieceOptions extends CallOptions {
  /** Only pieces of this history. */
  history?: string | undefined
  /** Reads no more log objects, apart from those of the last request. */
  objectsMax?: number | undefined
}

export interface FoundPiece {
  /** Undefined if no object that was read and is whole has anything of the cell. */
  last: LastPiece | undefined
  /** How many log objects were read. */
  objects: number
}

/** Looks for the last piece of a cell from the end on, since it is mostly there. Damage is refused where the object is needed. */
export async function lastPiece(
  index: ReadableLog,
  cellId: string,
  refs: LogRefs,
  { history, objectsMax = Number.POSITIVE_INFINITY, signal }: LastPieceOptions = {},
): Promise<FoundPiece> {
  let objects = 0
  for (let end = refs.length; end > 0 && objects < objectsMax; end -= PARALLEL_READS) {
    // What is kept in memory is read without any wait.
    await turnOfTheLoop()
    signal?.throwIfAborted()
    const some = [...refs.slice(end - PARALLEL_READS, end)]
    objects += some.length
    const found = await Promise.all(some.map((ref) => pieceIn(index, ref, cellId, history)))
    const last = found.findLast((piece) => piece !== undefined)
    if (last !== undefined) return { last, objects }
  }
  return { last: undefined, objects }
}

async function pieceIn(
  index: ReadableLog,
  ref: LogRef,
  cellId: string,
  history: string | undefined,
): Promise<LastPiece | undefined> {
  try {
    const { cells } = await index.manifest(ref)
    const cell = cells.findLast(
      (each) => each.cell_id === cellId && (history ?? each.history) === each.history,
    )
    const piece = cell?.pieces.at(-1)
    return cell && piece && { history: cell.history, piece, key: ref.key }
  } catch (error) {
    if (isCellError(error, 'backup_corrupt')) return undefined
    throw error
  }
}
