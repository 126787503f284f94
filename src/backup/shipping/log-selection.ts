import type { AccountQueue } from '../../base/fairness/account-queue.ts'
import { AccountRotation } from '../../base/fairness/account-rotation.ts'
import type { LogPiece, UnshippedLog } from '../changes/log/cell-log.ts'

/**
 * A reader takes a manifest of up to 4 MiB: so many pieces and entries of `commits` fit, of about 500 and 24 bytes each.
 */
const PIECES_MAX = 4_000
const COMMITS_MAX = 60_000

/** What one object has room for. */
interface LogSelection {
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

/**
 * Who comes first in the next object: accounts take turns, and of each the cell comes first that has waited longest. Each
 * worker tells of its own cells, so that no order of theirs says that.
 */
export class ShippingOrder {
  readonly #accounts = new AccountRotation()
  /** By cell of the last round: the round since which it waits. */
  #since = new Map<string, number>()
  #rounds = 0

  /** Cells of which nothing was told are forgotten. */
  round(logs: readonly UnshippedLog[]): AccountQueue<UnshippedLog> {
    this.#rounds++
    const before = this.#since
    const since = new Map(logs.map(({ cellId }) => [cellId, before.get(cellId) ?? this.#rounds]))
    this.#since = since
    const sinceOf = ({ cellId }: UnshippedLog) => since.get(cellId) as number
    return this.#accounts.round(
      logs.toSorted((a, b) => sinceOf(a) - sinceOf(b)),
      accountOf,
    )
  }

  /** An object has room for some of it. What is left of it waits anew. */
  hadTurn(log: UnshippedLog): void {
    this.#since.set(log.cellId, this.#rounds + 1)
    this.#accounts.hadTurn(accountOf(log))
  }
}

function accountOf({ accountId }: UnshippedLog): string {
  return accountId ?? ''
}
