import type { CellError } from '../errors.ts'
import { type CellDatabaseSettings, PAGE_BYTES } from './cell-settings.ts'
import { CellState, type FailureHooks } from './cell-state.ts'
import { GroupCommit } from './commits/group-commit.ts'
import { checkWork } from './commits/transaction-work.ts'
import { type OpenSavepoint, Transactions } from './commits/transactions.ts'
import type { GroupEvents, GroupWork, PreparedGroup, Settle } from './commits/work-group.ts'
import { type CopyOptions, copyDatabase } from './files/database-copy.ts'
import { DeleteReserve, type Growth } from './files/delete-reserve.ts'
import type { CellAccess, OpenCell } from './holds/cell-access.ts'
import { CellHolds } from './holds/cell-holds.ts'
import type { Hold, HoldBounds } from './holds/hold.ts'
import { KeepingConnection, type KeptReads } from './kept-reads.ts'
import type { SqlText } from './sql-policy/sql-statement.ts'
import { type Connection, closeLeavingLog, openConnection, type Statement } from './sqlite.ts'
import { isSqliteError, toCellError } from './sqlite-errors.ts'
import type { SqlParams, SqlResult, SqlRow } from './statements/sql-values.ts'
import { type SqlOptions, StatementRunner } from './statements/statement-runner.ts'
import { Checkpoints, UNKNOWN_WEIGHT, type WalState } from './wal/checkpoints.ts'
import { closeWithoutCheckpoint } from './wal/close-without-checkpoint.ts'
import { type AcknowledgedFrames, CommitSync } from './wal/commit-sync.ts'
import { CommitTimes, type TimesOptions } from './wal/commit-times.ts'
import { readWalEnd, type WalEnd } from './wal/wal-end.ts'
import { WalReserve } from './wal/wal-reserve.ts'
import { type CommitChanges, CommitRecorder } from './watch/commit-recorder.ts'

/** Where a layer above takes part in a cell's life. The engine knows nothing of backups; it only asks before it forgets. */
export interface CellHooks extends FailureHooks {
  /** Once, when the file was opened. */
  opened?(database: CellDatabase): void
  /**
   * Before a caller's SQL is prepared, after it has passed the policy. Returns true if it made anything in the connection's
   * schema; the same text comes again if that is rolled back.
   */
  beforePrepare?(database: Pick<CellDatabase, 'exec' | 'defineFunction'>, sql: string): boolean
  /** After the first commit since {@link CellDatabase.dirty} was cleared. */
  changed?(database: CellDatabase): void
  /** Before the frames of the write-ahead log are moved into the database and may be overwritten. */
  beforeCheckpoint?(database: CellDatabase, wal: WalState): void
  /** After a checkpoint that moved frames. */
  afterCheckpoint?(database: CellDatabase): void
  /** Once, when the file was closed. */
  closed?(): void
}

/** Counts uses of all cells; only their order matters. */
let uses = 0

/**
 * One open SQLite file: the only connection that writes it (invariant 3). Everything is synchronous; a call holds the
 * event loop for as long as SQLite works, except {@link commit}, which waits for its group.
 */
export class CellDatabase implements OpenCell {
  readonly path: string
  readonly settings: CellDatabaseSettings
  readonly checkpoints: Checkpoints
  readonly syncs: CommitSync
  readonly holds: CellHolds
  readonly reads: KeptReads
  /** Order of the last use among all cells, for the pool's choice of what to close. */
  usedAt = 0
  /** Uses that forbid the pool to close it. */
  pins = 0
  /** Set with the first commit, which calls the `changed` hook. Cleared, it has the next commit call that again. */
  dirty = false
  /** Only while somebody watches the cell: see {@link record}. */
  recorder: CommitRecorder | undefined
  /** Only if somebody asks when commits were made: see {@link keepTimes}. */
  times: CommitTimes | undefined
  /** The hold that has its connection: others use {@link access}, and what they change waits. */
  held: Hold | undefined

  readonly #connection: Connection
  readonly #hooks: CellHooks
  readonly #state: CellState
  readonly #transactions: Transactions
  readonly #group: GroupCommit
  readonly #deleteReserve: DeleteReserve
  /** None where commits have no fsync of their own. */
  readonly #walReserve: WalReserve | undefined
  /** Made with the first statement: of thousands of open cells, many know only KV. */
  #runner: StatementRunner | undefined

  /** @throws `cell_quarantined`, `busy`; what the `opened` hook throws */
  constructor(path: string, settings: CellDatabaseSettings, hooks: CellHooks = {}) {
    this.path = path
    this.settings = settings
    this.#hooks = hooks
    const { limits, durability, checkpointBytes } = settings
    const state = new CellState({ path, limits }, hooks)
    this.#state = state
    let opened: KeepingConnection | undefined
    try {
      const connection = new KeepingConnection(openConnection(path))
      opened = connection
      connection.configure(settings)
      this.#connection = connection
      const { reads } = connection
      this.reads = reads
      this.#transactions = new Transactions(connection, state, reads, {
        begin: () => {
          this.#changing()
          this.#deleteReserve.began()
        },
        commit: (run) => this.#deleteReserve.forCommit(run),
        committed: () => {
          this.#runner?.statements.committed()
          this.#changed(UNKNOWN_WEIGHT)
        },
        mark: () => this.recorder?.mark(),
        rolledBack: (mark) => {
          this.#runner?.statements.rolledBack()
          this.recorder?.rolledBack(mark)
          this.#undone()
        },
      })
      const { shared } = settings
      this.#group = new GroupCommit(
        this.#transactions,
        (error) => this.#failureOrOwn(error),
        () => this.held !== undefined,
        shared && (() => shared.commits.join(this)),
      )
      this.#deleteReserve = new DeleteReserve(connection, limits.cellBytesMax)
      const frames = () => {
        const frames = this.checkpoints.framesOfCommit()
        this.times?.counted(frames)
        return frames
      }
      const inLog = shared && { log: shared.commits.log, cellId: shared.cellId }
      const needed = () => this.checkpoints.framesNeeded()
      const stored = () => this.checkpoints.stored()
      this.syncs = new CommitSync(connection, { path, state, frames, needed, stored }, durability, inLog)
      this.checkpoints = new Checkpoints(
        connection,
        { path, state, reads },
        { ...limits, checkpointBytes },
        {
          before: (wal) => hooks.beforeCheckpoint?.(this, wal),
          after: () => hooks.afterCheckpoint?.(this),
          failure: (error) => this.failure(error),
          failed: (error) => this.#failed(error),
          long: () => {
            if (!settings.leavesLongLogs) this.shortenLog()
          },
        },
      )
      this.holds = new CellHolds(this, {
        state,
        transactions: this.#transactions,
        group: this.#group,
        beforePrepare: (reader, sql) => hooks.beforePrepare?.(reader, sql) ?? false,
        changing: () => this.#changing(),
        translate: (error) => this.#failureOrOwn(error),
      })
      if (durability !== 'relaxed') this.#walReserve = new WalReserve(`${path}-wal`, checkpointBytes)
      this.syncs.opened()
      hooks.opened?.(this)
      // Its process was killed in a transaction.
      this.checkpoints.lookForLong()
    } catch (error) {
      const failure = toCellError(error, { path, limits })
      const isLeftAlone = failure.details.reason !== undefined && opened && closeLeavingLog(opened)
      if (!isLeftAlone) opened?.close()
      throw failure
    }
  }

  /** False once closed or quarantined, beside a hold, and after a transaction ended under the caller: the one check on the hot path. */
  get usable(): boolean {
    return this.#state.usable
  }

  get open(): boolean {
    return this.#state.open
  }

  get quarantined(): CellError | undefined {
    return this.#state.quarantined
  }

  get inTransaction(): boolean {
    return this.#connection.inTransaction
  }

  /** True while the pool must leave it open. Quarantine closes its cells itself. */
  get busy(): boolean {
    const isUsed = this.pins > 0 || this.#transactions.depth > 0 || this.#group.pending
    return isUsed || this.syncs.pending || this.quarantined !== undefined
  }

  /** Memory that the prepared statements of callers take at most. */
  get statementBytes(): number {
    return this.#runner?.statements.bytes ?? 0
  }

  /** Prepares the engine's own SQL. Never for text that came from outside: no policy is asked. */
  prepare(sql: string): Statement {
    return this.#connection.prepare(sql)
  }

  /** Runs the engine's own SQL, several statements at once if need be. */
  exec(sql: string): void {
    this.#connection.exec(sql)
  }

  /** Turns foreign keys on or off. Outside of a transaction: inside one SQLite ignores it. */
  enforceForeignKeys(isOn: boolean): void {
    this.exec(`PRAGMA foreign_keys = ${isOn ? 'ON' : 'OFF'}`)
    // SQLite's code for the same text is another one now.
    this.#runner?.statements.schemaChanged()
  }

  /** Where its WAL ends; outside of a transaction. @throws the errors of SQLite and of the system */
  walEnd(): WalEnd {
    const { checkpoints } = this
    return readWalEnd(this.syncs.openWal(), checkpoints.knownFrames, () => checkpoints.frames())
  }

  /** Adds a function to this connection's SQL; it is not deterministic, and called once a row. */
  defineFunction(name: string, run: () => number): void {
    this.#connection.function(name, { deterministic: false }, run)
  }

  /** Runs one statement. Outside {@link transaction} a change is committed when this returns. @throws as `Cell.sql()` */
  sql<Row = SqlRow>(sql: SqlText, params: SqlParams = [], options: SqlOptions = {}): SqlResult<Row> {
    return this.statement((runner) => runner.run(sql, params, options) as SqlResult<Row>)
  }

  /** {@link sql} with another use of the runner. @param use runs at most one statement */
  statement<T>(use: (runner: StatementRunner) => T): T {
    this.#state.assertUsable()
    if (this.settings.counts !== undefined) this.settings.counts.statements++
    try {
      this.#runner ??= this.#newRunner()
      return use(this.#runner)
    } catch (error) {
      const failure = this.failure(error)
      // What `OR FAIL` leaves behind outside of a transaction is committed. Nobody can tell whether it has left anything.
      const isFailed = failure.code === 'constraint_violation' || this.recorder?.isTouched === true
      if (isFailed && this.#transactions.depth === 0) this.#changed(UNKNOWN_WEIGHT)
      this.#undone()
      throw failure
    }
  }

  /**
   * Tells of each commit what it touched, once it is on disk and before it is acknowledged, in the order of the commits.
   * Commits that were not on disk when the cell went into quarantine are not told of.
   *
   * @param publish must not throw; undefined ends it
   */
  record(publish: ((changes: CommitChanges) => void) | undefined): void {
    const recorder = publish && new CommitRecorder(this.#connection, publish)
    this.recorder = recorder
    this.syncs.onSync = recorder && (() => recorder.syncing(() => !this.syncs.pending))
  }

  /** From here on notes when commits are made. */
  keepTimes(options: TimesOptions): CommitTimes {
    this.times = new CommitTimes(this.checkpoints, options)
    return this.times
  }

  /** By how much the file may grow from here on, within the bound on its size; `any` after it was opened. */
  limitGrowth(growth: Growth): void {
    this.#state.assertUsable()
    this.#deleteReserve.setGrowth(growth)
  }

  /** Runs `work` in one transaction, or in a savepoint of the open one: see {@link Transactions.run}. */
  transaction<T>(work: () => T): T {
    checkWork(work)
    return this.#translated(() => this.#transactions.run(work))
  }

  /** A savepoint of the open transaction: see {@link Transactions.openSavepoint}. */
  openSavepoint(): OpenSavepoint {
    return this.#transactions.openSavepoint()
  }

  /** Runs several of the engine's own reads in one transaction: they see one state, and cost one lock. */
  read<T>(work: () => T): T {
    return this.#translated(() => this.#transactions.read(work))
  }

  /**
   * Joins the next group commit; resolves with what `work` returns once it is committed. See {@link GroupCommit}.
   *
   * @throws at once, what keeps it from joining
   */
  commit<T>(work: () => T): Promise<T> {
    checkWork(work)
    if (this.held === undefined) this.#state.assertUsable()
    else this.held.noteWaiter()
    return this.#group.add(work)
  }

  /** The cell for whoever is not the hold: beside one, what is committed of it. */
  get access(): CellAccess {
    if (this.held === undefined || this.held.isRunning) return this
    return this.holds.reader
  }

  beginHold(bounds: HoldBounds): { hold: Hold; access: OpenCell } {
    return this.holds.begin(bounds)
  }

  /** Commits what waits for the group commit. @param settle called for each piece of work, once its outcome is final */
  commitWaiting(settle?: Settle): void {
    this.#group.commitNext(settle)
  }

  /** Commits a group that the caller has gathered: each piece of work is settled when this returns. */
  commitGroup(works: readonly GroupWork[], events?: GroupEvents): void {
    this.#state.assertUsable()
    this.#group.commit(works, events)
  }

  /**
   * Runs a group up to its COMMIT, whose fsync is deferred (see {@link CommitSync.defer}). Several cells may be prepared at a time.
   *
   * @returns undefined if it takes a {@link commitGroup} instead; then nothing has happened
   */
  prepareGroup(works: readonly GroupWork[], events: GroupEvents): PreparedGroup | undefined {
    const syncAgain = this.syncs.deferFromHere()
    let prepared: PreparedGroup | undefined
    try {
      prepared = this.#group.prepare(works, events)
    } finally {
      if (prepared === undefined) syncAgain()
    }
    if (prepared === undefined) return undefined
    this.pins++
    const commit = () => {
      try {
        prepared.commit()
      } finally {
        this.pins--
        syncAgain()
      }
    }
    return { commit }
  }

  /**
   * Runs a change of the engine's own, with the bookkeeping of a commit.
   *
   * @param weight how many ordinary row changes it is worth in log length
   */
  write<T>(run: () => T, weight = 1): T {
    this.#state.assertUsable()
    try {
      this.#changing()
      const value = run()
      if (this.#transactions.depth === 0) this.#changed(weight)
      return value
    } catch (error) {
      this.#undone()
      throw this.failure(error)
    }
  }

  /** {@link write} for a deletion, which may take more room in a full cell. It can run twice, if the first time fails. */
  writeDelete<T>(run: () => T, weight = 1): T {
    return this.write(() => this.#deleteReserve.forDeletion(run), weight)
  }

  /**
   * What a caller is told of an error in a statement of the engine's own. One that means a damaged file ends all use of
   * the cell: after a failed fsync, for example, the next may succeed without having stored what the first did not.
   */
  failure(error: unknown): CellError {
    if (this.open) this.#transactions.checkAfterStatement()
    const failure = this.#deleteReserve.notice(this.#state.failure(error))
    if (failure.code === 'disk_full' && this.usable) this.checkpoints.relieve()
    return failure
  }

  /** @throws `store_closed`, `cell_quarantined`; `sql_error` inside a transaction that a statement has ended */
  assertUsable(): void {
    this.#state.assertUsable()
  }

  /** Cuts the write-ahead log if its file is long and no commit waits for its fsync: see `leavesLongLogs`. Never throws. */
  shortenLog(): void {
    if (!this.syncs.pending) this.checkpoints.shorten()
  }

  /** Copies the database into a new file while others use it. @throws `store_closed` if it is closed meanwhile */
  async copyTo(target: string, options?: CopyOptions): Promise<void> {
    this.#state.assertOpen()
    this.pins++
    try {
      // SQLite copies nothing while a transaction of this connection is open, and says then that all is copied.
      const copy = () => copyDatabase(this.#connection, target, PAGE_BYTES, options)
      while (!(await this.holds.between(copy)));
    } catch (error) {
      this.#state.assertOpen()
      throw this.#failureOrOwn(error)
    } finally {
      this.pins--
    }
  }

  touch(): void {
    this.usedAt = ++uses
  }

  /**
   * Ends its holds, makes queued commits, checkpoints and closes; never throws. In quarantine, nothing more is written.
   *
   * @param leavesLog without a checkpoint if possible, for files that are about to be removed
   * @returns for a quarantined cell, what its log must hold, if that is known
   */
  close({ leavesLog = false } = {}): AcknowledgedFrames | undefined {
    if (!this.open) return undefined
    this.holds.endAll('the cell was closed, restored or deleted')
    this.#group.flush()
    this.syncs.closing()
    const isLeft = leavesLog && this.quarantined === undefined && closeLeavingLog(this.#connection)
    if (!isLeft) this.checkpoints.closing()
    this.#state.close()
    this.#runner = undefined
    let frames: number | undefined
    if (this.quarantined !== undefined)
      frames = closeWithoutCheckpoint(this.#connection, this.path, () => this.checkpoints.state().frames)
    else if (!isLeft) this.#connection.close()
    this.checkpoints.closed()
    this.syncs.closed()
    this.#hooks.closed?.()
    return frames === undefined ? undefined : this.syncs.acknowledgedOf(frames)
  }

  #newRunner(): StatementRunner {
    return new StatementRunner(this.#connection, this.reads, this.settings, this.#transactions, {
      beforePrepare: (sql) => this.#hooks.beforePrepare?.(this, sql) ?? false,
      changing: () => this.#changing(),
      changed: () => this.#changed(UNKNOWN_WEIGHT),
      deletion: (run) => this.#deleteReserve.forDeletion(run),
      recorder: () => this.recorder,
    })
  }

  /** Before every change, whatever makes it: only then is its commit fsynced. @throws `busy` */
  #changing(): void {
    // Its transaction's BEGIN came here.
    if (this.#transactions.depth > 0) return
    this.reads.end()
    this.syncs.changing()
    this.times?.changing()
    this.checkpoints.assertRoom()
  }

  /** After a commit. Never throws, since that can't be undone. */
  #changed(weight: number): void {
    this.syncs.committed()
    if (this.settings.counts !== undefined) this.settings.counts.commits++
    if (!this.dirty) {
      this.dirty = true
      try {
        this.#hooks.changed?.(this)
      } catch (error) {
        this.#failed(error)
      }
    }
    this.times?.committed()
    this.recorder?.committed(!this.syncs.pending)
    this.checkpoints.committed(weight, this.syncs.pending)
    const { knownFrames } = this.checkpoints
    if (knownFrames === undefined) return
    this.times?.counted(knownFrames)
    if (!this.syncs.pending) this.#walReserve?.keep(knownFrames)
  }

  /** What was changed is not: it may have been much. */
  #undone(): void {
    if (!this.#connection.inTransaction) this.checkpoints.lookForLong()
  }

  #failed(error: unknown): void {
    this.#state.report(this.#failureOrOwn(error))
  }

  #translated<T>(run: () => T): T {
    this.#state.assertUsable()
    try {
      return run()
    } catch (error) {
      // Once more: while a statement has ended its transaction, nothing is cut.
      this.#undone()
      throw this.#failureOrOwn(error)
    }
  }

  /** Errors of the caller's own code inside a transaction stay what they are; only the driver's are translated. */
  #failureOrOwn(error: unknown): unknown {
    return isSqliteError(error) ? this.failure(error) : error
  }
}
