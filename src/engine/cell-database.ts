import fs from 'node:fs'
import { CellError } from '../errors.ts'
import { GroupCommit } from './group-commit.ts'
import type { Limits, ResultLimits } from './limits.ts'
import { encodeParams } from './parameters.ts'
import { collectRows, decodeInteger, decodeRow, distinctColumns, type RawRow, rowObject } from './rows.ts'
import { checkStatement, type StatementShape } from './sql-policy.ts'
import type { SqlParams, SqlResult, SqlRow, SqlValue } from './sql-values.ts'
import { type Connection, openConnection, type Statement } from './sqlite.ts'
import { toCellError } from './sqlite-errors.ts'
import { StatementCache } from './statement-cache.ts'
import { checkTrustedStatement } from './trusted-sql.ts'

/** `full`: a commit is fsynced before it is answered. `relaxed`: a power loss may drop the newest commits, never tear one. */
export type Durability = 'full' | 'relaxed'

/** `tenant`: every statement passes the allow-list before it is prepared. `trusted`: only what would break the engine is refused. */
export type SqlPolicy = 'tenant' | 'trusted'

export interface CellDatabaseSettings {
  durability: Durability
  sqlPolicy: SqlPolicy
  limits: Limits
  /** Memory for database pages that a cell may keep, in bytes. */
  pageCacheBytes: number
  /** Checkpoint once the write-ahead log holds this many bytes. */
  checkpointBytes: number
}

/** Where a layer above takes part in a cell's life. The engine knows nothing of backups; it only asks before it forgets. */
export interface CellHooks {
  /** Once, when the file was opened. */
  opened?(database: CellDatabase): void
  /** Before SQL of a caller's is prepared, and after it has passed the policy. */
  beforePrepare?(database: CellDatabase, sql: string): void
  /** After the first commit since {@link CellDatabase.markClean}. */
  changed?(database: CellDatabase): void
  /** Before the frames of the write-ahead log are moved into the database and may be overwritten. Must not throw. */
  beforeCheckpoint?(database: CellDatabase, wal: WalState): void
  /** After a checkpoint that moved frames. */
  afterCheckpoint?(database: CellDatabase): void
  /** Once, when the file was closed. */
  closed?(): void
}

export interface WalState {
  /** Frames in the write-ahead log, up to the last commit. */
  frames: number
  /** Of these, already in the database file. */
  checkpointed: number
}

export interface SqlOptions {
  /** In place of the setting. */
  policy?: SqlPolicy | undefined
  /** `array`: rows are arrays of values in column order. */
  rowMode?: 'object' | 'array' | undefined
  /** Bounds on the result; without them, all rows are taken. */
  limits?: ResultLimits | undefined
}

/** Counts uses of all cells; only their order matters. */
let uses = 0

interface PreparedSql {
  statement: Statement
  shape: StatementShape
  columns: string[]
  /** It has passed the tenants' policy; one that was prepared as trusted has not. */
  tenantSafe: boolean
}

const STATEMENTS_MAX = 128
export const PAGE_BYTES = 4_096
/** Changes between two looks at the length of the write-ahead log: a look costs as much as a read. */
const CHANGES_BETWEEN_WAL_CHECKS = 64

/**
 * One open SQLite file: the only connection that writes it (invariant 3). Everything is synchronous; a call holds the
 * event loop for as long as SQLite works, except {@link commit}, which waits for its group.
 */
export class CellDatabase {
  readonly path: string
  readonly settings: CellDatabaseSettings
  /** False once closed, and while a transaction is lost: the one check on the hot path. */
  usable = true
  /** Order of the last use among all cells, for the pool's choice of what to close. */
  usedAt = 0
  /** Uses that forbid the pool to close it. */
  pins = 0

  readonly #connection: Connection
  readonly #hooks: CellHooks
  readonly #statements = new StatementCache<PreparedSql>(STATEMENTS_MAX)
  readonly #group: GroupCommit
  #begin: Statement | undefined
  #commit: Statement | undefined
  #changesOf: Statement | undefined
  #walState: Statement | undefined
  #depth = 0
  #lost = false
  #open = true
  #dirty = false
  #schemaTouched = false
  #changesSinceWalCheck = 0
  #checkpointHolds = new Set<CheckpointHold>()
  #readDescriptor: number | undefined

  constructor(path: string, settings: CellDatabaseSettings, hooks: CellHooks = {}) {
    this.path = path
    this.settings = settings
    this.#hooks = hooks
    try {
      this.#connection = openConnection(path)
      this.#configure()
    } catch (error) {
      throw toCellError(error, settings.limits)
    }
    this.#group = new GroupCommit({
      exec: (sql) => this.#connection.exec(sql),
      rollback: () => this.#rollbackIfOpen(),
      alone: (work) => this.transaction(work),
      committed: () => this.#committed(CHANGES_BETWEEN_WAL_CHECKS),
      inTransaction: () => this.#connection.inTransaction,
    })
    hooks.opened?.(this)
  }

  get open(): boolean {
    return this.#open
  }

  get inTransaction(): boolean {
    return this.#connection.inTransaction
  }

  /** True while the pool must leave it open. */
  get busy(): boolean {
    return this.pins > 0 || this.#depth > 0 || this.#group.pending || this.#checkpointHolds.size > 0
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
   * `constraint_violation`, `result_too_large`, `sql_too_long`, `cell_full`, `cell_quarantined`, `busy`.
   */
  sql<Row = SqlRow>(sql: string, params: SqlParams = [], options: SqlOptions = {}): SqlResult<Row> {
    this.assertUsable()
    try {
      const prepared = this.#prepareSql(sql, options.policy ?? this.settings.sqlPolicy)
      const bound = encodeParams(params, this.settings.limits)
      const result = prepared.statement.reader
        ? this.#runReader(prepared, bound, options)
        : this.#runChange(prepared, bound)
      return result as SqlResult<Row>
    } catch (error) {
      throw toCellError(error, this.settings.limits)
    } finally {
      this.#checkAfterStatement()
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
    if (this.#depth > 0 || this.#connection.inTransaction) return this.#nested(work)
    try {
      this.#begin ??= this.prepare('BEGIN IMMEDIATE')
      this.#begin.run()
    } catch (error) {
      throw toCellError(error, this.settings.limits)
    }
    this.#depth++
    try {
      const value = refusePromise(work())
      if (!this.#connection.inTransaction) throw transactionEnded()
      this.#commit ??= this.prepare('COMMIT')
      this.#commit.run()
      this.#committed(CHANGES_BETWEEN_WAL_CHECKS)
      return value
    } catch (error) {
      this.#rollbackIfOpen()
      throw toCellErrorOrOwn(error, this.settings.limits)
    } finally {
      this.#depth--
      this.#recover()
    }
  }

  /** Joins the next group commit; resolves with what `work` returns once it is committed. See {@link GroupCommit}. */
  async commit<T>(work: () => T): Promise<T> {
    this.assertUsable()
    try {
      return await this.#group.add(() => this.#inGroup(work))
    } catch (error) {
      throw toCellErrorOrOwn(error, this.settings.limits)
    }
  }

  /**
   * Runs a change of the engine's own, with the bookkeeping of a commit.
   *
   * @param weight how many ordinary row changes it is worth in log length
   */
  write<T>(run: () => T, weight = 1): T {
    this.assertUsable()
    try {
      const value = run()
      if (this.#depth === 0 && !this.#connection.inTransaction) this.#committed(weight)
      return value
    } catch (error) {
      this.#checkAfterStatement()
      throw toCellError(error, this.settings.limits)
    }
  }

  /** @throws `store_closed` when closed; `sql_error` inside a transaction that a statement has ended. */
  assertUsable(): void {
    if (this.usable) return
    if (this.#lost) throw transactionEnded()
    throw new CellError('store_closed', 'The cell was closed.')
  }

  /** Switches off the fsync of commits while `run` works, for changes that need not survive a power loss by themselves. */
  withoutSync<T>(run: () => T): T {
    if (this.settings.durability === 'relaxed' || this.#connection.inTransaction) return run()
    this.#connection.pragma('synchronous = NORMAL')
    try {
      return run()
    } finally {
      this.#connection.pragma('synchronous = FULL')
    }
  }

  sqliteVersion(): string {
    return this.prepare('SELECT sqlite_version()').pluck().get() as string
  }

  /** Another value than before if another program has committed to the file meanwhile; our own commits don't count. */
  dataVersion(): number {
    return this.prepare('PRAGMA data_version').pluck().get() as number
  }

  walState(): WalState {
    this.#walState ??= this.prepare('PRAGMA wal_checkpoint(NOOP)').raw()
    const [, frames, checkpointed] = this.#walState.get() as [number, number, number]
    return { frames: Math.max(frames, 0), checkpointed: Math.max(checkpointed, 0) }
  }

  /**
   * Moves the write-ahead log into the database file.
   *
   * @returns false if it could not be finished: something holds it up, or a transaction is open.
   */
  checkpoint(mode: 'PASSIVE' | 'TRUNCATE' = 'PASSIVE'): boolean {
    if (this.#checkpointHolds.size > 0 || this.#connection.inTransaction) return false
    const wal = this.walState()
    if (wal.frames > wal.checkpointed) this.#hooks.beforeCheckpoint?.(this, wal)
    else if (mode === 'PASSIVE' || wal.frames === 0) return true
    const [row] = this.#connection.pragma(`wal_checkpoint(${mode})`) as {
      busy: number
      log: number
      checkpointed: number
    }[]
    this.#hooks.afterCheckpoint?.(this)
    return row !== undefined && row.busy === 0 && row.checkpointed >= row.log
  }

  /**
   * Forbids checkpoints, so that the database file stays as it is while it is read. Once the log outgrows
   * `walBytesMax` the hold is broken instead (invariant 7): see {@link CheckpointHold.broken}.
   */
  holdCheckpoints(): CheckpointHold {
    const hold: CheckpointHold = {
      broken: false,
      release: () => {
        if (this.#checkpointHolds.delete(hold)) this.#checkWal()
      },
    }
    this.#checkpointHolds.add(hold)
    return hold
  }

  /**
   * A descriptor for reading the database file beside SQLite. It stays open until after SQLite's own is closed: closing
   * any descriptor of the file drops all of the process's POSIX locks on it (invariant 4).
   */
  readDescriptor(): number {
    this.#readDescriptor ??= fs.openSync(this.path, 'r')
    return this.#readDescriptor
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

  /** Checkpoints and closes. Queued commits are made first. */
  close(): void {
    if (!this.#open) return
    this.#group.flush()
    try {
      this.checkpoint('TRUNCATE')
    } finally {
      this.#open = false
      this.usable = false
      this.#statements.clear()
      this.#connection.close()
      if (this.#readDescriptor !== undefined) fs.closeSync(this.#readDescriptor)
      this.#hooks.closed?.()
    }
  }

  /** Set at every open: none of these is kept in the file, save for the journal mode. One call: each costs a statement. */
  #configure(): void {
    const { durability, pageCacheBytes, limits } = this.settings
    // The first page is read with a small cache: SQLite reserves memory for up to 20 pages at once, or for as many as fit.
    this.#connection.exec(`
      PRAGMA cache_size = 4;
      PRAGMA journal_mode = WAL;
      PRAGMA synchronous = ${durability === 'full' ? 'FULL' : 'NORMAL'};
      PRAGMA wal_autocheckpoint = 0;
      PRAGMA cache_size = -${Math.ceil(pageCacheBytes / 1_024)};
      PRAGMA trusted_schema = OFF;
      PRAGMA max_page_count = ${Math.ceil(limits.cellBytesMax / PAGE_BYTES)};
    `)
  }

  #prepareSql(sql: string, policy: SqlPolicy): PreparedSql {
    const cached = this.#statements.get(sql)
    if (cached !== undefined) {
      if (policy === 'tenant' && !cached.tenantSafe) {
        checkStatement(sql)
        cached.tenantSafe = true
      }
      return cached
    }
    checkText(sql, this.settings.limits)
    const shape = policy === 'tenant' ? checkStatement(sql) : checkTrustedStatement(sql)
    this.#hooks.beforePrepare?.(this, sql)
    const statement = this.#connection.prepare(sql) as Statement
    if (statement.reader) statement.raw().safeIntegers()
    const prepared = { statement, shape, columns: columnsOf(statement), tenantSafe: policy === 'tenant' }
    this.#statements.set(sql, prepared)
    return prepared
  }

  #runChange({ statement, shape }: PreparedSql, bound: unknown[]): SqlResult<SqlRow> {
    const { changes, lastInsertRowid } = statement.run(...bound)
    const isSchema = isSchemaChange(shape)
    if (isSchema) this.#schemaChanged()
    if (!this.#connection.inTransaction && this.#depth === 0) {
      this.#committed(isSchema ? CHANGES_BETWEEN_WAL_CHECKS : 1 + changes)
    }
    const inserted = changes > 0 && isInsert(shape)
    return {
      columns: [],
      rows: [],
      changes,
      lastInsertRowid: inserted ? decodeInteger(lastInsertRowid) : null,
    }
  }

  #runReader(prepared: PreparedSql, bound: unknown[], options: SqlOptions): SqlResult<SqlRow | SqlValue[]> {
    if (prepared.statement.readonly)
      return { ...this.#take(prepared, bound, options), changes: 0, lastInsertRowid: null }
    // RETURNING: the rows come out while the change is under way, so that too many of them must undo it.
    return this.transaction(() => {
      const taken = this.#take(prepared, bound, options)
      this.#changesOf ??= this.prepare('SELECT changes(), last_insert_rowid()').raw().safeIntegers()
      const [changes, rowid] = this.#changesOf.get() as [bigint, bigint]
      const inserted = changes > 0n && isInsert(prepared.shape)
      return { ...taken, changes: Number(changes), lastInsertRowid: inserted ? decodeInteger(rowid) : null }
    })
  }

  #take(
    prepared: PreparedSql,
    bound: unknown[],
    { rowMode, limits }: SqlOptions,
  ): { columns: string[]; rows: (SqlRow | SqlValue[])[] } {
    const { statement } = prepared
    const values = limits
      ? collectRows(statement.iterate(...bound) as Iterable<RawRow>, limits)
      : (statement.all(...bound) as RawRow[]).map(decodeRow)
    const first = values[0]
    // Another program changed the schema under a cached `SELECT *`.
    if (first !== undefined && first.length !== prepared.columns.length)
      prepared.columns = columnsOf(statement)
    const { columns } = prepared
    return {
      columns: [...columns],
      rows: rowMode === 'array' ? values : values.map((row) => rowObject(columns, row)),
    }
  }

  /** After every statement the connection is as it was (invariant 6). */
  #checkAfterStatement(): void {
    const inTransaction = this.#connection.inTransaction
    if (inTransaction === this.#depth > 0) return
    if (inTransaction) this.#rollbackIfOpen()
    else {
      this.#lost = true
      this.usable = false
    }
  }

  #recover(): void {
    if (this.#depth > 0 || !this.#lost) return
    this.#lost = false
    this.usable = this.#open
  }

  #inGroup<T>(work: () => T): T {
    this.#depth++
    try {
      return refusePromise(work())
    } finally {
      this.#depth--
      this.#recover()
    }
  }

  #nested<T>(work: () => T): T {
    const connection = this.#connection
    connection.exec('SAVEPOINT nested')
    this.#depth++
    try {
      const value = refusePromise(work())
      if (!connection.inTransaction) throw transactionEnded()
      connection.exec('RELEASE nested')
      return value
    } catch (error) {
      if (connection.inTransaction) connection.exec('ROLLBACK TO nested; RELEASE nested')
      this.#afterRollback()
      throw toCellErrorOrOwn(error, this.settings.limits)
    } finally {
      this.#depth--
    }
  }

  #rollbackIfOpen(): void {
    if (this.#connection.inTransaction) this.#connection.exec('ROLLBACK')
    this.#afterRollback()
  }

  #afterRollback(): void {
    if (this.#schemaTouched) this.#statements.clear()
    this.#schemaTouched = false
  }

  #schemaChanged(): void {
    // Names of columns are kept with the statements; those of `SELECT *` may be others now.
    this.#statements.clear()
    this.#schemaTouched = this.#connection.inTransaction
  }

  #committed(weight: number): void {
    this.#schemaTouched = false
    if (!this.#dirty) {
      this.#dirty = true
      this.#hooks.changed?.(this)
    }
    this.#changesSinceWalCheck += weight
    if (this.#changesSinceWalCheck >= CHANGES_BETWEEN_WAL_CHECKS) this.#checkWal()
  }

  #checkWal(): void {
    this.#changesSinceWalCheck = 0
    if (!this.#open || this.#connection.inTransaction) return
    const { frames, checkpointed } = this.walState()
    const bytes = frames * (PAGE_BYTES + 24)
    if (bytes < this.settings.checkpointBytes || frames === checkpointed) return
    if (bytes > this.settings.limits.walBytesMax) {
      for (const hold of this.#checkpointHolds) hold.broken = true
      this.#checkpointHolds.clear()
    }
    this.checkpoint('PASSIVE')
  }
}

export interface CheckpointHold {
  /** The log grew past its bound and was checkpointed: what was read of the database file is worthless. */
  broken: boolean
  release(): void
}

function checkText(sql: string, { sqlBytesMax }: Limits): void {
  if (typeof sql !== 'string') throw new CellError('invalid_request', 'sql is a string.', { field: 'sql' })
  if (sql.length > sqlBytesMax || Buffer.byteLength(sql) > sqlBytesMax) {
    throw new CellError('sql_too_long', `A statement is at most ${sqlBytesMax} bytes long.`, {
      limit: sqlBytesMax,
    })
  }
  if (sql.isWellFormed()) return
  throw new CellError('invalid_request', 'The SQL text holds a lone surrogate, which is not valid Unicode.', {
    field: 'sql',
  })
}

function columnsOf(statement: Statement): string[] {
  return statement.reader ? distinctColumns(statement.columns().map(({ name }) => name)) : []
}

function isInsert({ verb, explain }: StatementShape): boolean {
  return !explain && (verb === 'INSERT' || verb === 'REPLACE')
}

function isSchemaChange({ verb, explain }: StatementShape): boolean {
  return !explain && (verb === 'CREATE' || verb === 'DROP' || verb === 'ALTER')
}

function transactionEnded(): CellError {
  return new CellError(
    'sql_error',
    'A statement ended the whole transaction (OR ROLLBACK or RAISE(ROLLBACK)); nothing of it remains.',
  )
}

function refusePromise<T>(value: T): T {
  if (
    value !== null &&
    typeof value === 'object' &&
    typeof (value as { then?: unknown }).then === 'function'
  ) {
    throw new CellError(
      'invalid_request',
      'A transaction ends when its function returns, so the function must not be async.',
    )
  }
  return value
}

/** Errors of the caller's own code inside a transaction stay what they are; only the driver's are translated. */
function toCellErrorOrOwn(error: unknown, limits: Limits): unknown {
  return error instanceof Error && error.name === 'SqliteError' ? toCellError(error, limits) : error
}
