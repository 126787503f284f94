import { CellError } from '../errors.ts'
import { configure } from './cell-pragmas.ts'
import type { CellDatabaseSettings } from './cell-settings.ts'
import { type CheckpointHold, Checkpoints, UNKNOWN_WEIGHT, type WalState } from './checkpoints.ts'
import { closeWithoutCheckpoint } from './close-without-checkpoint.ts'
import { CommitSync } from './commit-sync.ts'
import { DeleteReserve } from './delete-reserve.ts'
import { GroupCommit, type GroupEvents, type GroupWork } from './group-commit.ts'
import type { SqlStatement } from './sql-policy/sql-statement.ts'
import { type Connection, closeLeavingLog, openConnection, type Statement } from './sqlite.ts'
import { isSqliteError, toCellError } from './sqlite-errors.ts'
import type { SqlParams, SqlResult, SqlRow } from './statements/sql-values.ts'
import { type SqlOptions, StatementRunner } from './statements/statement-runner.ts'
import { Transactions, transactionEnded } from './transactions.ts'

/** Where a layer above takes part in a cell's life. The engine knows nothing of backups; it only asks before it forgets. */
export interface CellHooks {
  /** Once, when the file was opened. */
  opened?(database: CellDatabase): void
  /**
   * Before SQL of a caller's is prepared, and after it has passed the policy.
   *
   * @returns true if anything in the connection's schema was made; the same text comes again if that is rolled back
   */
  beforePrepare?(database: CellDatabase, sql: string): boolean
  /** After the first commit since {@link CellDatabase.markClean}. */
  changed?(database: CellDatabase): void
  /** Before the frames of the write-ahead log are moved into the database and may be overwritten. */
  beforeCheckpoint?(database: CellDatabase, wal: WalState): void
  /** After a checkpoint that moved frames. */
  afterCheckpoint?(database: CellDatabase): void
  /** Once, at the first sign that the disk has failed or the file is damaged: nothing uses the file from here on. */
  quarantined?(reason: CellError): void
  /** Told of errors that are nobody's answer: after a commit, at a close, and when the cell is quarantined. */
  failed?(error: unknown): void
  /** Once, when the file was closed. */
  closed?(): void
}

/** Counts uses of all cells; only their order matters. */
let uses = 0

/**
 * One open SQLite file: the only connection that writes it (invariant 3). Everything is synchronous; a call holds the
 * event loop for as long as SQLite works, except {@link commit}, which waits for its group.
 */
export class CellDatabase {
  readonly path: string
  readonly settings: CellDatabaseSettings
  /** False once closed or quarantined, and while a transaction is lost: the one check on the hot path. */
  usable = true
  /** Order of the last use among all cells, for the pool's choice of what to close. */
  usedAt = 0
  /** Uses that forbid the pool to close it. */
  pins = 0

  readonly #connection: Connection
  readonly #hooks: CellHooks
  readonly #transactions: Transactions
  readonly #group: GroupCommit
  readonly #checkpoints: Checkpoints
  readonly #syncs: CommitSync
  readonly #deleteReserve: DeleteReserve
  /** Made with the first statement: of thousands of open cells, many know only KV. */
  #runner: StatementRunner | undefined
  #open = true
  #lost = false
  #quarantined: CellError | undefined
  #framesLeft: number | undefined
  #dirty = false

  /** @throws `cell_quarantined`, `busy`; what the `opened` hook throws */
  constructor(path: string, settings: CellDatabaseSettings, hooks: CellHooks = {}) {
    this.path = path
    this.settings = settings
    this.#hooks = hooks
    let connection: Connection | undefined
    try {
      connection = openConnection(path)
      configure(connection, settings)
      this.#connection = connection
      this.#transactions = new Transactions(connection, {
        assertSound: () => {
          if (this.#quarantined !== undefined) throw this.#quarantined
        },
        begin: () => this.#checkpoints.assertRoom(),
        commit: (run) => this.#deleteReserve.forCommit(run),
        committed: () => this.#transactionCommitted(),
        rolledBack: () => this.#runner?.statements.rolledBack(),
        lostChanged: (lost) => this.#setLost(lost),
      })
      this.#group = new GroupCommit(this.#transactions, (error) => this.#failureOrOwn(error))
      this.#syncs = new CommitSync(connection, path, settings.durability, (error) => this.#quarantine(error))
      this.#deleteReserve = new DeleteReserve(connection, settings.limits.cellBytesMax)
      const bounds = { checkpointBytes: settings.checkpointBytes, walBytesMax: settings.limits.walBytesMax }
      this.#checkpoints = new Checkpoints(connection, path, bounds, {
        before: (wal) => hooks.beforeCheckpoint?.(this, wal),
        after: () => hooks.afterCheckpoint?.(this),
        failed: (error) => this.#failed(error),
      })
      hooks.opened?.(this)
    } catch (error) {
      const failure = toCellError(error, this.#errorContext)
      const isLeftAlone = failure.details.reason !== undefined && connection && closeLeavingLog(connection)
      if (!isLeftAlone) connection?.close()
      throw failure
    }
  }

  get open(): boolean {
    return this.#open
  }

  /** Why nothing uses the file any more: its damage must not be made worse. */
  get quarantined(): CellError | undefined {
    return this.#quarantined
  }

  get inTransaction(): boolean {
    return this.#connection.inTransaction
  }

  /** True while the pool must leave it open. One in quarantine is seen to by that. */
  get busy(): boolean {
    const { depth } = this.#transactions
    return (
      this.pins > 0 ||
      depth > 0 ||
      this.#group.pending ||
      this.#syncs.pending ||
      this.#checkpoints.held ||
      this.#quarantined !== undefined
    )
  }

  /** Prepares the engine's own SQL. Never for text that came from outside: no policy is asked. */
  prepare(sql: string): Statement {
    return this.#connection.prepare(sql)
  }

  /** Runs the engine's own SQL, several statements at once if need be. */
  exec(sql: string): void {
    this.#connection.exec(sql)
  }

  /** Adds a function to this connection's SQL; it is not deterministic, and called once a row. */
  defineFunction(name: string, run: () => number): void {
    this.#connection.function(name, { deterministic: false }, run)
  }

  /**
   * Runs one statement. Outside {@link transaction} a change is committed when this returns.
   *
   * @throws `statement_not_allowed`, `sql_error`, `multiple_statements`, `param_count_mismatch`, `invalid_parameter`,
   * `constraint_violation`, `result_too_large`, `sql_too_long`, `cell_full`, `disk_full`, `cell_quarantined`, `busy`.
   */
  sql<Row = SqlRow>(
    sql: string | SqlStatement,
    params: SqlParams = [],
    options: SqlOptions = {},
  ): SqlResult<Row> {
    this.assertUsable()
    try {
      this.#runner ??= this.#newRunner()
      const result = this.#runner.run(sql, params, options) as SqlResult<Row>
      this.#transactions.checkAfterStatement()
      return result
    } catch (error) {
      throw this.failure(error)
    }
  }

  /**
   * Runs `work` in one transaction: all of it is committed when this returns, or none when it throws. Inside another
   * transaction it is a savepoint.
   *
   * @throws what `work` throws; `invalid_request` if it returns a promise, since a transaction can't outlive the call.
   */
  transaction<T>(work: () => T): T {
    this.assertUsable()
    try {
      return this.#transactions.run(work)
    } catch (error) {
      throw this.#failureOrOwn(error)
    }
  }

  /** Runs several reads of the engine's own in one transaction: they see one state, and cost one lock. */
  read<T>(work: () => T): T {
    this.assertUsable()
    try {
      return this.#transactions.read(work)
    } catch (error) {
      throw this.#failureOrOwn(error)
    }
  }

  /** Joins the next group commit; resolves with what `work` returns once it is committed. See {@link GroupCommit}. */
  async commit<T>(work: () => T): Promise<T> {
    this.assertUsable()
    return await this.#group.add(work)
  }

  /**
   * The same for a group that the caller has gathered, at once: each piece of work is settled when this returns.
   */
  commitGroup(works: readonly GroupWork[], events?: GroupEvents): void {
    this.assertUsable()
    this.#group.commit(works, events)
  }

  /**
   * Runs a change of the engine's own, with the bookkeeping of a commit.
   *
   * @param weight how many ordinary row changes it is worth in log length
   */
  write<T>(run: () => T, weight = 1): T {
    this.assertUsable()
    this.#checkpoints.assertRoom()
    let value: T
    try {
      value = run()
    } catch (error) {
      throw this.failure(error)
    }
    if (this.#transactions.depth === 0) this.#changed(weight)
    return value
  }

  /**
   * The same for a change that only deletes: where the cell is full it may take a little more room for that. It can run
   * twice, the first time in vain.
   */
  writeDelete<T>(run: () => T, weight = 1): T {
    return this.write(() => this.#deleteReserve.forDeletion(run), weight)
  }

  /**
   * What a caller is told of an error in a statement of the engine's own. One that means a damaged file ends all use of
   * the cell: after a failed fsync, say, the next one may succeed and yet not have stored what the first did not.
   */
  failure(error: unknown): CellError {
    if (this.#open) this.#transactions.checkAfterStatement()
    const failure = toCellError(error, this.#errorContext)
    this.#deleteReserve.saw(failure)
    if (failure.code === 'cell_quarantined') this.#quarantine(failure)
    if (failure.code === 'disk_full' && this.usable) this.#checkpoints.relieve()
    return failure
  }

  /** @throws `store_closed`, `cell_quarantined`; `sql_error` inside a transaction that a statement has ended. */
  assertUsable(): void {
    if (this.usable) return
    if (this.#quarantined !== undefined) throw this.#quarantined
    throw this.#open ? transactionEnded() : new CellError('store_closed', 'The cell was closed.')
  }

  /** Switches off the fsync of commits while `run` works, for changes that need not survive a power loss by themselves. */
  withoutSync<T>(run: () => T): T {
    return this.#syncs.without(run)
  }

  /**
   * Runs `run`, whose commits are not fsynced one by one: none of them may be acknowledged before {@link syncLog} has
   * resolved, which takes the time of one fsync however many cells do so at once. Until then whoever reads the cell sees
   * what a power loss may take back. Does nothing special to a `relaxed` cell, nor inside a transaction.
   *
   * @throws what `run` throws
   */
  commitUnsynced<T>(run: () => T): T {
    this.assertUsable()
    return this.#syncs.later(run)
  }

  /**
   * Resolves once every commit so far is on disk, as it is after each with `synchronous=FULL`. If it rejects, what was
   * committed since the last one must be refused: whether it stays is not known, and nothing can prove it any more.
   *
   * @throws `cell_quarantined`
   */
  async syncLog(): Promise<void> {
    await this.#syncs.sync()
    if (this.#quarantined !== undefined) throw this.#quarantined
  }

  /**
   * Makes sure that the log is on disk as it was found: whoever wrote its last commit may have been killed before the
   * fsync.
   *
   * @throws `cell_quarantined`
   */
  storeLog(): void {
    this.assertUsable()
    this.#syncs.storeFound()
  }

  sqliteVersion(): string {
    return this.prepare('SELECT sqlite_version()').pluck().get() as string
  }

  /** Another value than before if another program has committed to the file meanwhile; our own commits don't count. */
  dataVersion(): number {
    return this.prepare('PRAGMA data_version').pluck().get() as number
  }

  walState(): WalState {
    return this.#checkpoints.state()
  }

  /**
   * Moves the write-ahead log into the database file.
   *
   * @returns false if it could not be finished: something holds it up, or a transaction is open.
   */
  checkpoint(mode: 'PASSIVE' | 'TRUNCATE' = 'PASSIVE'): boolean {
    this.assertUsable()
    try {
      return this.#checkpoints.run(mode)
    } catch (error) {
      throw this.failure(error)
    }
  }

  /**
   * Forbids checkpoints, so that the database file stays as it is while it is read. Once the log outgrows
   * `walBytesMax`, or the cell is closed, the hold is broken instead (invariant 7): see {@link CheckpointHold.broken}.
   */
  holdCheckpoints(): CheckpointHold {
    return this.#checkpoints.hold()
  }

  /**
   * A descriptor for reading the database file beside SQLite. It stays open until after SQLite's own is closed: closing
   * any descriptor of the file drops all of the process's POSIX locks on it (invariant 4).
   */
  readDescriptor(): number {
    return this.#checkpoints.readDescriptor()
  }

  touch(): void {
    this.usedAt = ++uses
  }

  get dirty(): boolean {
    return this.#dirty
  }

  /** It was changed before it was opened here: the `changed` hook has been called already. */
  markDirty(): void {
    this.#dirty = true
  }

  /** From here on, the next commit calls the `changed` hook again. */
  markClean(): void {
    this.#dirty = false
  }

  /** Frames of the log that hold commits, once it was closed in quarantine, and if that could be told. */
  get framesLeft(): number | undefined {
    return this.#framesLeft
  }

  /** Checkpoints and closes; never throws. Queued commits are made first. One in quarantine is closed as it is. */
  close(): void {
    if (!this.#open) return
    this.#group.flush()
    if (this.#quarantined === undefined) this.#storeAll()
    this.#checkpoints.closing()
    this.#open = false
    this.usable = false
    this.#runner = undefined
    if (this.#quarantined === undefined) this.#connection.close()
    else {
      this.#syncs.giveUp()
      this.#framesLeft = closeWithoutCheckpoint(
        this.#connection,
        this.path,
        () => this.#checkpoints.state().frames,
      )
    }
    this.#checkpoints.closed()
    this.#hooks.closed?.()
  }

  #storeAll(): void {
    try {
      this.#syncs.syncNow()
    } catch {
      // It is in quarantine now, and everybody has been told.
      return
    }
    try {
      if (this.usable) this.#checkpoints.run('TRUNCATE')
    } catch (error) {
      this.#failed(error)
    }
  }

  get #errorContext() {
    return { path: this.path, limits: this.settings.limits }
  }

  #newRunner(): StatementRunner {
    return new StatementRunner(this.#connection, this.settings, this.#transactions, {
      beforePrepare: (sql) => this.#hooks.beforePrepare?.(this, sql) ?? false,
      changing: () => this.#checkpoints.assertRoom(),
      changed: () => this.#changed(UNKNOWN_WEIGHT),
      deletion: (run) => this.#deleteReserve.forDeletion(run),
    })
  }

  #transactionCommitted(): void {
    this.#runner?.statements.committed()
    this.#changed(UNKNOWN_WEIGHT)
  }

  /** After a commit; never throws, since it is one already. */
  #changed(weight: number): void {
    if (!this.#dirty) {
      this.#dirty = true
      try {
        this.#hooks.changed?.(this)
      } catch (error) {
        this.#failed(error)
      }
    }
    this.#checkpoints.committed(weight)
  }

  #failed(error: unknown): void {
    const failure = this.#failureOrOwn(error)
    // A quarantine has been told of already.
    if (failure !== this.#quarantined) this.#hooks.failed?.(failure)
  }

  /** @returns the reason that everybody is told from here on: the first one stays */
  #quarantine(error: CellError): CellError {
    if (this.#quarantined !== undefined) return this.#quarantined
    this.#quarantined = error
    this.usable = false
    this.#hooks.quarantined?.(error)
    this.#hooks.failed?.(error)
    return error
  }

  #setLost(lost: boolean): void {
    this.#lost = lost
    this.usable = this.#open && !this.#lost && this.#quarantined === undefined
  }

  /** Errors of the caller's own code inside a transaction stay what they are; only the driver's are translated. */
  #failureOrOwn(error: unknown): unknown {
    return isSqliteError(error) ? this.failure(error) : error
  }
}
