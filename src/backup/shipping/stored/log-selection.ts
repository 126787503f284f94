import type { LogPiece, UnshippedLog } from '../../changes/log/cell-log.ts'
import type { ShippingOrder } from '../shipping-order.ts'

/**
 * A reader takes a manifest of up to 4 MiB: so many pieces and entries of `commits` fit, of about 500 and 24 bytes each.
 */
const PIECES_MAX = 4_000
const COMMITS_MAX = 60_000

/** What one object has room for. */
export interface LogSelection {
  logs: UnshippedLog[]
  /** Nothing was left for the next object. */
  isAll: boolean
}

/**
 * Takes as much as the manifest of an object has room for. A piece with more commits is cut at one of them.
 */
export function selectLogs(
  collected: readonly UnshippedLog[],
  order: ShippingOrder,
  piecesMax = PIECES_MAX,
  commitsMax = COMMITS_MAX,
): LogSelection {
  const logs: UnshippedLog[] = []
  let piecesLeft = piecesMax
  let commitsLeft = commitsMax
  const waiting = order.round(collected)
  for (let log = waiting.take(); log !== undefined; log = waiting.take()) {
    const pieces: LogPiece[] = []
    for (const piece of log.pieces) {
      if (piecesLeft === 0 || commitsLeft === 0) break
      const fitting = cutPiece(piece, commitsLeft)
      pieces.push(fitting)
      piecesLeft--
      commitsLeft -= fitting.commits.length
    }
    if (pieces.length > 0) {
      logs.push({ ...log, pieces })
      order.hadTurn(log)
    }
    const isWhole = pieces.length === log.pieces.length && pieces.at(-1)?.to === log.pieces.at(-1)?.to
    if (!isWhole) return { logs, isAll: false }
  }
  return { logs, isAll: true }
}

function cutPiece(piece: LogPiece, commitsMax: number): LogPiece {
  if (piece.commits.length <= commitsMax) return piece
  const commits = piece.commits.slice(0, commitsMax)
  const [to] = commits.at(-1) as [number, number]
  return { ...piece, to, commits }
}
