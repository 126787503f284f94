import { exists } from '../base/durable-files.ts'
import { CellError } from '../errors.ts'
import type { Durability } from './cell-settings.ts'
import type { CellState } from './cell-state.ts'
import type { Connection } from './sqlite.ts'
import { WalSync } from './wal-sync.ts'

/**
 * How the commits of one cell get to the disk: each by SQLite's own fsync, in its COMMIT, or several by one fsync that is
 * asked for afterwards. A failed fsync quarantines the cell.
 */
export class CommitSync {
  readonly #connection: Connection
  readonly #path: string
  readonly #isRelaxed: boolean
  readonly #state: CellState
  readonly #wal: WalSync
  /** Called when an fsync begins. What it returns is called once that has succeeded, before anything is acknowledged. */
  onSync: (() => () => void) | undefined

  constructor(connection: Connection, path: string, durability: Durability, state: CellState) {
    this.#connection = connection
    this.#path = path
    this.#isRelaxed = durability === 'relaxed'
    this.#state = state
    this.#wal = new WalSync(path)
  }

  /** True while commits with a deferred fsync may not be on disk. */
  get pending(): boolean {
    return this.#wal.pending
  }

  /** Runs commits without their fsyncs, for changes that need not survive a power loss. */
  skip<T>(run: () => T): T {
    if (this.#syncsInCommit) return run()
    this.#connection.exec('PRAGMA synchronous = NORMAL')
    try {
      return run()
    } finally {
      this.#connection.exec('PRAGMA synchronous = FULL')
    }
  }

  /**
   * Runs commits whose fsync is left to {@link sync}: none of them may be acknowledged before that has resolved, which
   * takes the time of one fsync, however many cells do so at once. Until then, readers of the cell see what a power loss
   * may take back. Changes nothing for a `relaxed` cell, nor inside a transaction. If the log can't be opened for the
   * later fsync, each commit has its own.
   *
   * @throws what `run` throws
   */
  defer<T>(run: () => T): T {
    this.#state.assertUsable()
    if (this.#syncsInCommit) return run()
    try {
      this.#wal.expect()
    } catch {
      return run()
    }
    return this.skip(run)
  }

  /**
   * Resolves once every commit so far is on disk. If it rejects, refuse what was committed since the last one that
   * resolved: nobody can tell any more whether it stays.
   *
   * @throws `cell_quarantined`
   */
  async sync(): Promise<void> {
    const synced = this.onSync?.()
    try {
      await this.#wal.sync()
    } catch (error) {
      throw this.#state.quarantine(walLost(error))
    }
    this.#state.assertNotQuarantined()
    synced?.()
  }

  /**
   * Fsyncs the log as it was found: the process that wrote its last commit may have been killed before the fsync.
   *
   * @throws `cell_quarantined`
   */
  syncFound(): void {
    this.#state.assertUsable()
    try {
      // If the log can't be looked at, it may be there with what was not fsynced.
      if (!exists(`${this.#path}-wal`)) return
      this.#wal.expect()
    } catch (error) {
      throw this.#state.quarantine(walLost(error))
    }
    this.#syncNow()
  }

  /** Before the connection is closed: fsyncs what was deferred, unless the cell is quarantined. Never throws. */
  closing(): void {
    try {
      if (this.#state.quarantined === undefined) this.#syncNow()
      else this.#wal.abandon()
    } catch {
      // The cell is quarantined now, and its hooks have been told.
    }
  }

  #syncNow(): void {
    const synced = this.onSync?.()
    try {
      this.#wal.syncNow()
    } catch (error) {
      throw this.#state.quarantine(walLost(error))
    }
    synced?.()
  }

  /** True where the fsync is not ours to leave out. Inside a transaction, that is for its COMMIT to say. */
  get #syncsInCommit(): boolean {
    return this.#isRelaxed || this.#connection.inTransaction
  }
}

/** After a failed fsync, a later one that succeeds may not have stored what the first one did not. */
function walLost(cause: unknown): CellError {
  return new CellError('cell_quarantined', "The cell's log could not be written to the disk.", {
    reason: 'io_error',
    retryAfterMs: 2_000,
    cause,
  })
}
