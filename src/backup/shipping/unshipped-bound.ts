import type { Clock } from '../../base/clock.ts'
import type { Log } from '../../base/log.ts'
import { walBytes } from '../../engine/wal/wal-file.ts'
import type { LogPiece, UnshippedLog } from '../changes/log/cell-log.ts'
import type { LogPort } from './log-port.ts'

const EVERYTHING = { cellsMax: Number.MAX_SAFE_INTEGER, bytesMax: Number.MAX_SAFE_INTEGER, historyOf: [] }

export interface UnshippedBoundParts {
  cells: LogPort
  bytesMax: number
  clock: Clock
  log: Log
}

/** All cells are asked for it. */
const ENFORCE_EVERY_MS = 60_000

/** Bounds the disk that unshipped logs take while the object store does not answer, or takes less than is committed. */
export class UnshippedBound {
  readonly #parts: UnshippedBoundParts
  /** Cells that need a version. */
  readonly #dropped = new Set<string>()
  /** By the monotonic clock. */
  #enforcedAt = Number.NEGATIVE_INFINITY

  constructor(parts: UnshippedBoundParts) {
    this.#parts = parts
  }

  /**
   * Gives up histories if there is too much: of the account of which most waits, that of its largest cell, until it is enough.
   *
   * @returns the bytes that wait
   */
  async enforce(): Promise<number> {
    const { cells, bytesMax, clock, log } = this.#parts
    this.#enforcedAt = clock.monotonic()
    const { logs } = await cells.collectLogs(EVERYTHING)
    let total = unshippedBytes(logs)
    if (total <= bytesMax) return total
    for (const { cellId, bytes } of inOrder(logs)) {
      if (total <= bytesMax) break
      log.warn(
        { cellId, bytes, bytesMax },
        'too much waits to be shipped: this cell gets a new version once the object store answers, and no moment between that and its last shipped one can be restored',
      )
      this.#dropped.add(cellId)
      await cells.dropHistory(cellId)
      total -= bytes
    }
    return total
  }

  /** {@link enforce}, unless it was done in the last minute: then nothing is returned. */
  async enforceNowAndThen(): Promise<number | undefined> {
    const sinceMs = this.#parts.clock.monotonic() - this.#enforcedAt
    return sinceMs < ENFORCE_EVERY_MS ? undefined : await this.enforce()
  }

  /** Call when the object store answers: then the versions can be made. */
  catchUp(): void {
    for (const cellId of this.#dropped)
      this.#parts.cells.needsBase(cellId, 'history given up').catch(() => {})
    this.#dropped.clear()
  }
}

interface WaitingCell {
  cellId: string
  account: string
  bytes: number
  /** What waits of its account once the account's larger cells are given up. */
  ofAccount: number
}

/** Always of the account of which most waits then, its largest cell. */
function inOrder(logs: readonly UnshippedLog[]): WaitingCell[] {
  const byAccount = Map.groupBy(logs, ({ accountId }) => accountId ?? '')
  const waiting = [...byAccount].flatMap(([account, own]) => {
    let ofAccount = unshippedBytes(own)
    const cells = own.map((each) => ({ cellId: each.cellId, bytes: unshippedBytes([each]) }))
    cells.sort((a, b) => b.bytes - a.bytes)
    return cells.map(({ cellId, bytes }): WaitingCell => {
      const cell = { cellId, account, bytes, ofAccount }
      ofAccount -= bytes
      return cell
    })
  })
  return waiting.sort((a, b) => b.ofAccount - a.ofAccount)
}

/** Bytes of WALs. */
export function unshippedBytes(logs: readonly UnshippedLog[]): number {
  const size = ({ from, to, pageSize }: LogPiece) => walBytes(to, pageSize) - walBytes(from, pageSize)
  return logs.reduce((sum, { pieces }) => pieces.reduce((all, piece) => all + size(piece), sum), 0)
}
