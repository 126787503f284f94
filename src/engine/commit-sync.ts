import fs from 'node:fs'
import { CellError } from '../errors.ts'
import type { Durability } from './cell-settings.ts'
import type { Connection } from './sqlite.ts'
import { WalSync } from './wal-sync.ts'

/**
 * How the commits of one cell get to the disk: each by an fsync of SQLite's own, in its COMMIT, or several by one that is
 * asked for afterwards. A failure is told to `lost`, which ends all use of the cell and says what callers are told.
 */
export class CommitSync {
  readonly #connection: Connection
  readonly #path: string
  readonly #isRelaxed: boolean
  readonly #lost: (error: CellError) => CellError
  readonly #wal: WalSync

  constructor(
    connection: Connection,
    path: string,
    durability: Durability,
    lost: (error: CellError) => CellError,
  ) {
    this.#connection = connection
    this.#path = path
    this.#isRelaxed = durability === 'relaxed'
    this.#lost = lost
    this.#wal = new WalSync(path)
  }

  /** True while a commit may not be on disk whose fsync was put off. */
  get pending(): boolean {
    return this.#wal.pending
  }

  /** Runs commits without their fsyncs, for changes that need not survive a power loss by themselves. */
  without<T>(run: () => T): T {
    if (this.#syncsInCommit) return run()
    this.#connection.exec('PRAGMA synchronous = NORMAL')
    try {
      return run()
    } finally {
      this.#connection.exec('PRAGMA synchronous = FULL')
    }
  }

  /** Runs commits whose fsync is put off until {@link sync}. If the log can't be opened for that, each has its own. */
  later<T>(run: () => T): T {
    if (this.#syncsInCommit) return run()
    try {
      this.#wal.expect()
    } catch {
      return run()
    }
    return this.without(run)
  }

  /** Resolves once every commit so far is on disk. @throws `cell_quarantined` */
  async sync(): Promise<void> {
    try {
      await this.#wal.sync()
    } catch (error) {
      throw this.#lost(logLost(error))
    }
  }

  /** The same at once. @throws `cell_quarantined` */
  syncNow(): void {
    try {
      this.#wal.syncNow()
    } catch (error) {
      throw this.#lost(logLost(error))
    }
  }

  /** Stores the log as it was found: whoever wrote its last commit may have been killed before the fsync. @throws `cell_quarantined` */
  storeFound(): void {
    if (!fs.existsSync(`${this.#path}-wal`)) return
    try {
      this.#wal.expect()
    } catch (error) {
      throw this.#lost(logLost(error))
    }
    this.syncNow()
  }

  /** Nothing of what is pending is to be acknowledged any more. */
  giveUp(): void {
    this.#wal.giveUp()
  }

  /** Of a transaction, the COMMIT counts, which is not run here. */
  get #syncsInCommit(): boolean {
    return this.#isRelaxed || this.#connection.inTransaction
  }
}

/** After an fsync that failed, one that succeeds may not have stored what the first one did not. */
function logLost(cause: unknown): CellError {
  return new CellError('cell_quarantined', "The cell's log could not be stored on the disk.", {
    reason: 'io_error',
    retryAfterMs: 2_000,
    cause,
  })
}
