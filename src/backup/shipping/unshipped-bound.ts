import { AccountQueue } from '../../base/account-queue.ts'
import { backOffMs } from '../../base/back-off.ts'
import type { Clock } from '../../base/clock.ts'
import type { Log } from '../../base/log.ts'
import { walBytes } from '../../engine/wal-file.ts'
import { type CellError, isCellError } from '../../errors.ts'
import type { LogPiece, UnshippedLog } from '../changes/cell-log.ts'
import type { LogPort } from './log-port.ts'

const EVERYTHING = { cellsMax: Number.MAX_SAFE_INTEGER, bytesMax: Number.MAX_SAFE_INTEGER, about: [] }

export interface UnshippedBoundParts {
  cells: LogPort
  bytesMax: number
  /** Makes a version of a cell that begins a new history. */
  makeVersion(cellId: string): Promise<void>
  clock: Clock
  log: Log
}

/** All cells are asked for it. */
const ENFORCE_EVERY_MS = 60_000
const BACK_OFF = { minMs: 60_000, maxMs: 15 * 60_000 }

/** Bounds the disk that unshipped logs take while the object store does not answer, or takes less than is committed. */
export class UnshippedBound {
  readonly #parts: UnshippedBoundParts
  /** Cells that need a version, and their accounts. */
  readonly #dropped = new Map<string, string>()
  #making: Promise<void> | undefined
  /** By the monotonic clock. */
  #enforcedAt = Number.NEGATIVE_INFINITY
  #retryAt = Number.NEGATIVE_INFINITY
  /** Rounds of versions in a row of which one failed. */
  #failures = 0

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
    for (const { cellId, account, bytes } of inOrder(logs)) {
      if (total <= bytesMax) break
      log.warn(
        { cellId, bytes, bytesMax },
        'too much waits to be shipped: this cell gets a new version once the object store answers, and no moment between that and its last shipped one can be restored',
      )
      this.#dropped.set(cellId, account)
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

  /** Call when the object store answers: makes the versions, one after the other. */
  catchUp(): void {
    if (this.#dropped.size === 0 || this.#making !== undefined) return
    if (this.#parts.clock.monotonic() < this.#retryAt) return
    this.#making = this.#makeVersions().finally(() => {
      this.#making = undefined
    })
  }

  /** The versions have ended; their maker is stopped. */
  async settled(): Promise<void> {
    await this.#making
  }

  /** Accounts take turns. A cell that fails holds up no other: the next round begins with the others. */
  async #makeVersions(): Promise<void> {
    let hasFailed = false
    const inTurns = new AccountQueue<string>()
    for (const [cellId, account] of this.#dropped) inTurns.add(account, cellId)
    for (let cellId = inTurns.take(); cellId !== undefined; cellId = inTurns.take()) {
      const account = this.#dropped.get(cellId) as string
      // Before the version begins: what the cell gives up after that is not in it.
      this.#dropped.delete(cellId)
      const failure = await this.#makeVersion(cellId)
      if (failure === undefined || isCellError(failure, 'cell_not_found')) continue
      this.#dropped.set(cellId, account)
      if (!hasFailed) this.#backOff()
      hasFailed = true
      this.#parts.log.warn(
        { cellId, err: failure },
        'could not make the version that a cell needs to be shipped again; trying again',
      )
      if (isOfAll(failure)) return
    }
    if (!hasFailed) this.#failures = 0
  }

  /** @returns why it could not be made */
  async #makeVersion(cellId: string): Promise<unknown> {
    try {
      return await this.#parts.makeVersion(cellId)
    } catch (error) {
      return error
    }
  }

  #backOff(): void {
    this.#retryAt = this.#parts.clock.monotonic() + backOffMs(this.#failures++, BACK_OFF)
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

/** The next cell would fail too: the object store does not answer, say, or the store is being closed. */
function isOfAll(error: unknown): error is CellError {
  return isCellError(error) && (error.kind === 'retry' || error.kind === 'closed')
}

/** Bytes of WALs. */
export function unshippedBytes(logs: readonly UnshippedLog[]): number {
  const size = ({ from, to, pageSize }: LogPiece) => walBytes(to, pageSize) - walBytes(from, pageSize)
  return logs.reduce((sum, { pieces }) => pieces.reduce((all, piece) => all + size(piece), sum), 0)
}
