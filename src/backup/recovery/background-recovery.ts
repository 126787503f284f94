import { backOffMs, rest } from '../../base/async/back-off.ts'
import type { Clock, Timer } from '../../base/clock.ts'
import { AccountQueue } from '../../base/fairness/account-queue.ts'
import type { Log } from '../../base/log.ts'
import { CellError, type CellErrorCode } from '../../errors.ts'
import { toBackupError } from '../archive/backup-errors.ts'
import { Eta } from '../archiver/eta.ts'
import type { ObjectStore } from '../object-store/object-store.ts'
import { BACKUPS_PREFIX, parseVersion } from '../versions/object-keys.ts'

interface BackgroundRecoveryParts extends OrderParts {
  /** The cells whose data is not on this machine, the one first that was made last. */
  lostCells(signal: AbortSignal): Promise<string[]>
  /** Whose cell it is; empty for the owner's. */
  accountOf(cellId: string): string
  /** Bytes of a cell's database on this machine. */
  databaseBytes(cellId: string): number
  /** Restores at a time. */
  atOnce: number
  clock: Clock
  /** From 0 up to 1. */
  random: () => number
  log: Log
}

/** Restores a lost cell, or does nothing if its data is here; ends with the signal. */
export type Recover = (cellId: string, signal: AbortSignal) => Promise<void>

/** How far a store is that found cells without local data at its start. */
export interface RecoveryProgress {
  /** Cells that were lost and still exist. */
  cells: number
  /** Those that are back: by this recovery, by a request that needed them, or by a restore. */
  recovered: number
  /** Of their databases. */
  bytes: number
  /** Those that could not be restored. */
  failed: number
  /** Epoch milliseconds. */
  startedAt: number
  /** Null while cells are being restored. */
  endedAt: number | null
  /** Milliseconds; undefined while nobody can say. */
  etaMs: number | undefined
}

/** A start has its first requests, which bring back the cells that they need. */
const BEGIN_AFTER_MS = 1_000
/** Each restore is followed by a rest as long as itself, up to this: small ones one after another would leave no pause. */
const REST_MS_MAX = 250
/** After a failure that is not the cell's own. Each further one doubles it. */
const BACK_OFF = { minMs: 5_000, maxMs: 5 * 60_000 }
const TELL_EVERY_MS = 60_000
/** Cells are of all sizes, so their rate says something only over a longer time. */
const ETA_WINDOW_MS = 5 * 60_000

/** These are about the object store, the disk or the machine, and end: the cell is not given up for them. */
const PASSING: ReadonlySet<CellErrorCode> = new Set(['cells_missing', 'object_store_mismatch'])

/**
 * Brings back, after a start, the cells whose local data is lost: a few at a time. Accounts take turns, and of
 * an account the cell comes first that was changed last. A request for a cell does not wait for it: requests come first in the archiver's queue, and share a restore that runs. A
 * cell that cannot be restored is told once and stops no other. After a restart it goes on with the cells that are still lost.
 */
export class BackgroundRecovery {
  readonly #parts: BackgroundRecoveryParts
  readonly #abort = new AbortController()
  readonly #eta: Eta
  /** Cells that are not back, also those that failed. */
  readonly #lost = new Set<string>()
  readonly #failed = new Map<string, CellErrorCode>()
  readonly #queue = new AccountQueue<string>()
  /** The accounts of the cells that are being restored. */
  readonly #working: string[] = []
  /** Until when, by the monotonic clock, accounts rest of which too many jobs wait already. */
  readonly #limited = new Map<string, number>()
  #recovered = 0
  #bytes = 0
  #startedAt: number | undefined
  #endedAt: number | null = null
  #retries = 0
  /** By the monotonic clock. */
  #pauseEndsAt = Number.NEGATIVE_INFINITY
  #beginTimer: Timer | undefined
  #tellTimer: Timer | undefined
  #running: Promise<void> | undefined
  #recover: Recover | undefined

  constructor(parts: BackgroundRecoveryParts) {
    this.#parts = parts
    this.#eta = new Eta(parts.clock, ETA_WINDOW_MS)
  }

  start(recover: Recover): void {
    this.#recover = recover
    this.#beginTimer = this.#parts.clock.setTimer(() => {
      void this.again()
    }, BEGIN_AFTER_MS)
  }

  /** Looks for lost cells once more, after what runs: this node has got some. Resolves once they are back, or given up. */
  async again(): Promise<void> {
    const recover = this.#recover
    if (recover === undefined || this.#abort.signal.aborted) return
    const before = this.#running ?? Promise.resolve()
    const running = before.then(() => this.#run(recover))
    this.#running = running
    await running
  }

  /** Cancels running restores. The next start goes on with their cells. */
  async stop(): Promise<void> {
    this.#abort.abort(new CellError('store_closed', 'The store is closed.'))
    this.#beginTimer?.cancel()
    await this.#running
  }

  /** The cell was restored, whoever wanted it. */
  returned(cellId: string): void {
    if (!this.#lost.delete(cellId)) return
    this.#failed.delete(cellId)
    this.#recovered++
    this.#bytes += this.#parts.databaseBytes(cellId)
  }

  /** The cell was deleted, or is another node's: nobody misses it here. */
  deleted(cellId: string): void {
    this.#lost.delete(cellId)
    this.#failed.delete(cellId)
  }

  /** The cells that could not be restored, and why. */
  get failures(): ReadonlyMap<string, CellErrorCode> {
    return this.#failed
  }

  /** Undefined if no cell was lost. */
  get progress(): RecoveryProgress | undefined {
    if (this.#startedAt === undefined) return undefined
    const cells = this.#lost.size + this.#recovered
    const done = this.#recovered + this.#failed.size
    return {
      cells,
      recovered: this.#recovered,
      bytes: this.#bytes,
      failed: this.#failed.size,
      startedAt: this.#startedAt,
      endedAt: this.#endedAt,
      etaMs: this.#endedAt === null ? this.#eta.after({ phase: 'download', bytes: done, total: cells }) : 0,
    }
  }

  async #run(recover: Recover): Promise<void> {
    const { clock, log, atOnce } = this.#parts
    if (!(await this.#find())) return
    this.#startedAt = clock.now()
    this.#endedAt = null
    log.info({ ...this.#figures(), atOnce }, 'cells without local data are being restored in the background')
    this.#tellLater()
    await Promise.all(Array.from({ length: atOnce }, () => this.#workOff(recover)))
    this.#tellTimer?.cancel()
    this.#endedAt = clock.now()
    if (this.#abort.signal.aborted) return
    const durationMs = this.#endedAt - this.#startedAt
    log.info({ ...this.#figures(), durationMs }, 'the background restore of cells has ended')
  }

  /** Finds the lost cells and their order. @returns whether there are any */
  async #find(): Promise<boolean> {
    const { signal } = this.#abort
    while (!signal.aborted) {
      try {
        const lost = await this.#parts.lostCells(signal)
        for (const cellId of await byRecentChange(lost, this.#parts, signal)) {
          this.#lost.add(cellId)
          this.#queue.add(this.#parts.accountOf(cellId), cellId)
        }
        return this.#queue.size > 0
      } catch (error) {
        await this.#backOff(toBackupError(error), this.#parts.clock.monotonic())
      }
    }
    return false
  }

  /** Takes one cell after the other, until none is left. */
  async #workOff(recover: Recover): Promise<void> {
    const { clock } = this.#parts
    const { signal } = this.#abort
    for (;;) {
      await this.#rest(this.#pauseEndsAt - clock.monotonic())
      const cellId = this.#next()
      if (signal.aborted) return
      if (cellId === undefined) {
        if (this.#queue.size === 0) return
        await this.#rest(Math.min(...this.#limited.values()) - clock.monotonic())
        continue
      }
      if (!this.#lost.has(cellId)) continue
      const beganAt = clock.monotonic()
      const account = this.#parts.accountOf(cellId)
      this.#working.push(account)
      try {
        await recover(cellId, signal)
        this.returned(cellId)
        this.#retries = 0
        await this.#rest(Math.min(clock.monotonic() - beganAt, REST_MS_MAX))
      } catch (error) {
        if (signal.aborted) return
        await this.#failedOn(cellId, toBackupError(error), beganAt)
      } finally {
        this.#working.splice(this.#working.indexOf(account), 1)
      }
    }
  }

  /** One account has more than half of the restores only if no other one has a cell to restore. */
  #next(): string | undefined {
    const { atOnce, clock } = this.#parts
    for (const [account, endsAt] of this.#limited)
      if (endsAt <= clock.monotonic()) this.#limited.delete(account)
    const mayHave = (account: string) => !this.#limited.has(account)
    const hasShare = (account: string) =>
      mayHave(account) && this.#working.filter((each) => each === account).length < Math.max(1, atOnce / 2)
    return this.#queue.take(hasShare) ?? this.#queue.take(mayHave)
  }

  async #failedOn(cellId: string, err: CellError, beganAt: number): Promise<void> {
    const { code } = err
    if (code === 'cell_not_found' || code === 'cell_moving') {
      this.deleted(cellId)
    } else if (code === 'rate_limited') {
      const account = this.#parts.accountOf(cellId)
      this.#queue.add(account, cellId)
      this.#limited.set(account, this.#parts.clock.monotonic() + (err.details.retryAfterMs ?? BACK_OFF.minMs))
    } else if (err.kind === 'retry' || PASSING.has(code)) {
      // The others first: it may be about this cell's objects alone.
      this.#queue.add(this.#parts.accountOf(cellId), cellId)
      await this.#backOff(err, beganAt)
    } else {
      this.#failed.set(cellId, code)
      this.#parts.log.error({ cellId, code, err }, 'could not restore a cell whose data is lost')
    }
  }

  /** Of several failures at the same time, one counts. */
  async #backOff(err: CellError, beganAt: number): Promise<void> {
    const { clock, random, log } = this.#parts
    if (this.#abort.signal.aborted || beganAt < this.#pauseEndsAt) return
    const retryMs = backOffMs(this.#retries++, BACK_OFF, random)
    this.#pauseEndsAt = clock.monotonic() + retryMs
    log.warn(
      { ...this.#figures(), err, retryMs },
      'the background restore of cells waits; trying again later',
    )
    await this.#rest(retryMs)
  }

  #tellLater(): void {
    const { clock, log } = this.#parts
    this.#tellTimer = clock.setTimer(() => {
      log.info(this.#figures(), 'cells are being restored in the background')
      this.#tellLater()
    }, TELL_EVERY_MS)
  }

  #figures(): object {
    if (this.progress === undefined) return {}
    const { cells, recovered, bytes, failed, etaMs } = this.progress
    return { cells, recovered, failed, bytes, etaMs }
  }

  /** Ends early with the store. */
  #rest(ms: number): Promise<void> {
    return rest(this.#parts.clock, ms, this.#abort.signal)
  }
}

/** A listing has a page for each 1,000 objects of the whole bucket, so it has to be for this share of all cells. */
const LISTED_SHARE = 0.1

interface OrderParts {
  objectStore: ObjectStore
  /** How many cells exist. */
  cellCount(): number
}

/**
 * Puts lost cells in the order in which they are likely to be needed: the one first that was changed last. After a total loss
 * the only trace of that is the time of each cell's newest backup. One listing shows it, and no object is read. Cells
 * without a difference stay in their order, so the caller puts the one first that was made last.
 */
async function byRecentChange(
  lost: readonly string[],
  { objectStore, cellCount }: OrderParts,
  signal: AbortSignal,
): Promise<string[]> {
  if (lost.length < 2 || lost.length < cellCount() * LISTED_SHARE) return [...lost]
  const changedAt = new Map<string, number>(lost.map((cellId) => [cellId, 0]))
  for await (const { key } of objectStore.list(BACKUPS_PREFIX, { signal })) {
    const version = parseVersion(key)
    const before = version && changedAt.get(version.cellId)
    if (version !== undefined && before !== undefined && version.time > before)
      changedAt.set(version.cellId, version.time)
  }
  return [...lost].sort((a, b) => (changedAt.get(b) ?? 0) - (changedAt.get(a) ?? 0))
}
