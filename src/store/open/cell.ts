import type { Writable } from 'node:stream'
import { CALL, type CallOptions } from '../../backup/object-store/object-store.ts'
import { unlessAborted } from '../../base/async/unless-aborted.ts'
import { checkOptions, type Given, type Shape } from '../../base/options/option-shapes.ts'
import type { CellRecord } from '../../catalog/cell-registry.ts'
import type { CellDatabase } from '../../engine/cell-database.ts'
import { checkWork, type NoPromise } from '../../engine/commits/transaction-work.ts'
import type { OpenSavepoint } from '../../engine/commits/transactions.ts'
import type { Growth } from '../../engine/files/delete-reserve.ts'
import type { CellAccess, OpenCell } from '../../engine/holds/cell-access.ts'
import { type Hold, transactionLost } from '../../engine/holds/hold.ts'
import { type MigrateResult, migrate, withoutForeignKeys } from '../../engine/migrations.ts'
import type { QuarantineState } from '../../engine/quarantine.ts'
import { runScript } from '../../engine/script.ts'
import type { SqlStatement } from '../../engine/sql-policy/sql-statement.ts'
import { BEHIND_PARAMS, SQL_OPTIONS } from '../../engine/statements/sql-options.ts'
import type {
  MixedParams,
  NamedParams,
  SqlParams,
  SqlResult,
  SqlRow,
  SqlValue,
} from '../../engine/statements/sql-values.ts'
import type { RawResult, SqlOptions, StatementDescription } from '../../engine/statements/statement-runner.ts'
import { CellError } from '../../errors.ts'
import { Kv } from '../../kv/kv.ts'
import { type ExportOptions, type ExportResult, exportCell } from '../cells/cell-export.ts'
import type { Spool } from '../cells/spool-files.ts'
import type { StoreSettings } from '../settings/settings.ts'
import { CellStorage } from '../storage/cell-storage.ts'
import type { WatchOptions } from '../watch/cell-change.ts'
import type { ChangeStream } from '../watch/change-stream.ts'
import { CellStatement, type PrepareOptions } from './cell-statement.ts'
import {
  type BeginHoldOptions,
  HOLD_MS_DEFAULT,
  HOLD_OPTIONS,
  type HoldOptions,
  type Savepoints,
  withSavepoints,
} from './hold-options.ts'
import type { ConfirmOptions } from './replication.ts'

/** What a handle needs from the process that opens its cell. Every method takes the cell's id. */
export interface CellProvider {
  readonly settings: StoreSettings
  readonly spool: Spool
  record(id: string): CellRecord
  open(id: string): CellDatabase
  sizeBytes(id: string): number
  quarantine(id: string): QuarantineState | undefined
  ensureLocal(id: string): Promise<void>
  watch(id: string, options?: WatchOptions): ChangeStream
  /** Whether the cell's changes count only once they are in the object store, too. */
  isRemote(id: string): boolean
  /** Resolves once all that the cell has committed is in the object store. */
  replicated(id: string, options: ConfirmOptions): Promise<void>
  /** Called for every expiry that is set. Must not throw. */
  expiryNoted(id: string, expiresAt: number): void
}

/**
 * A cell inside of {@link Cell.hold}: what is done through it is part of that transaction. `commit()`, `hold()`, `migrate()` and
 * `export()` are refused here (`invalid_request`).
 */
export type HeldCell = Cell & Savepoints

/** One step of a cell's schema: a script, or what {@link Cell.transaction} takes. */
export type Migration = string | ((cell: Cell) => NoPromise)

/** How {@link Cell.exec} runs a script. */
export type ExecOptions = Pick<SqlOptions, 'policy'>

/** How {@link Cell.get} runs a statement. */
export type RowOptions = Pick<SqlOptions, 'policy' | 'rowMode'>

const { policy, rowMode } = SQL_OPTIONS
const GET: Shape<RowOptions> = { policy, rowMode }
const EXEC: Shape<ExecOptions> = { policy }

/**
 * One cell, used through SQL and KV. The handle stays valid while the store closes and reopens the file behind it, and
 * across a restore, until the cell is deleted or the store is closed.
 *
 * Every method can throw `cell_not_found` once the cell was deleted, `cell_restoring` or `no_backup` while its local data
 * is missing, `cell_quarantined` while it is kept closed, and `store_closed`.
 */
export class Cell {
  /** A UUID. */
  readonly id: string
  /** Keys and values with times to live, in the same file and the same transactions as `sql()`. */
  readonly kv: Kv
  readonly #provider: CellProvider
  #database: OpenCell | undefined
  #storage: CellStorage | undefined

  /** @internal Cells come from `store.createCell()` and `store.openCell()`. @param held the cell inside of a hold */
  constructor(id: string, provider: CellProvider, held?: OpenCell) {
    this.id = id
    this.#provider = provider
    this.#database = held
    const { clock, limits } = provider.settings
    this.kv = new Kv({
      clock,
      limits,
      database: () => this.#use(),
      expiryNoted: (expiresAt) => provider.expiryNoted(id, expiresAt),
    })
  }

  /** For people; null if it has none. */
  get name(): string | null {
    return this.#provider.record(this.id).name
  }

  /** The account that owns the cell; null for a cell that only the library uses. */
  get accountId(): string | null {
    return this.#provider.record(this.id).accountId
  }

  /** Epoch milliseconds. */
  get createdAt(): number {
    return this.#provider.record(this.id).createdAt
  }

  /** Bytes of the database and its write-ahead log on this machine; 0 while the local data is missing. */
  get sizeBytes(): number {
    return this.#provider.sizeBytes(this.id)
  }

  /** The cell in the shape of a Durable Object's storage. */
  get storage(): CellStorage {
    const sizeBytes = () => this.sizeBytes
    this.#storage ??= new CellStorage({ database: () => this.#use(), sizeBytes })
    return this.#storage
  }

  /** Why the cell is kept closed; undefined if it is usable. */
  get quarantine(): QuarantineState | undefined {
    return this.#provider.quarantine(this.id)
  }

  /**
   * Restores the cell's data from its newest backup if it is not on this machine.
   *
   * @throws `no_backup`, and as `backups.restore()`
   */
  async ensureLocal(): Promise<void> {
    await this.#provider.ensureLocal(this.id)
  }

  /**
   * Runs one statement. Integers come back as numbers while safe and as bigints beyond, blobs as `Uint8Array`; a second
   * column called `name` comes back as `name_2`. Outside {@link transaction} a change is committed when this returns.
   *
   * @param params values for `?` in order, or an object for named placeholders
   * @returns rows of the type that the caller names; SQLite does not check it
   * @throws `sql_error`, `constraint_violation`, `statement_not_allowed`, `multiple_statements`, `param_count_mismatch`,
   * `invalid_parameter`, `sql_too_long`, `result_too_large`, `cell_full`, `disk_full`, `cell_quarantined`, `busy`
   */
  sql<Row = SqlRow, P extends object = never>(
    sql: string,
    params?: SqlParams | NamedParams<P>,
    options?: SqlOptions & { rowMode?: 'object' | undefined },
  ): SqlResult<Row>
  /** With rows as arrays: values in the order of `columns`. */
  sql<Row extends unknown[] = SqlValue[], P extends object = never>(
    sql: string,
    params: SqlParams | NamedParams<P> | undefined,
    options: SqlOptions & { rowMode: 'array' },
  ): SqlResult<Row>
  /** With a row mode that is known only when the program runs. */
  sql(sql: string, params?: SqlParams, options?: SqlOptions): SqlResult<SqlRow | SqlValue[]>
  sql(sql: string, params: SqlParams = [], options: SqlOptions = {}): SqlResult<SqlRow | SqlValue[]> {
    checkOptions(options, SQL_OPTIONS, BEHIND_PARAMS)
    return this.#use().sql(sql, params, options)
  }

  /**
   * The first row of one statement, or undefined. SQLite looks for no other row.
   *
   * ```ts
   * cell.get<User>('SELECT * FROM users WHERE id = ?', [7])?.name
   * ```
   *
   * @param params as of {@link Cell.sql}
   * @throws `invalid_request` for a statement that gives no rows; as {@link Cell.sql}
   */
  get<Row = SqlRow, P extends object = never>(
    sql: string,
    params: SqlParams | NamedParams<P> = [],
    options: RowOptions = {},
  ): Row | undefined {
    checkOptions(options, GET, BEHIND_PARAMS)
    return this.#use().statement((runner) => runner.first(sql, params as SqlParams, options)) as
      | Row
      | undefined
  }

  /**
   * Prepares one statement, to be run many times: see {@link CellStatement}.
   *
   * ```ts
   * const insert = cell.prepare('INSERT INTO users (name, age) VALUES (?, ?)')
   * cell.transaction(() => people.forEach(({ name, age }) => insert.run(name, age)))
   * ```
   *
   * @throws `sql_error`, `statement_not_allowed`, `multiple_statements`, `sql_too_long`
   */
  prepare<Row = SqlRow>(sql: string, options: PrepareOptions = {}): CellStatement<Row> {
    return new CellStatement<Row>(sql, options, () => this.#use())
  }

  /**
   * Runs a script: any number of statements with semicolons between them, in one transaction, all or none. It takes no
   * parameters, and rows are dropped.
   *
   * ```ts
   * cell.exec(fs.readFileSync('schema.sql', 'utf8'))
   * ```
   *
   * @throws as {@link Cell.sql}, with the statement's number and line in the message and its index, from 0, in `details.index`
   */
  exec(script: string, options: ExecOptions = {}): void {
    checkOptions(options, EXEC)
    runScript(this.#use(), script, options)
  }

  /**
   * Runs the migrations that the cell has not had. Each runs in one transaction with its number, counted from 1, in
   * `PRAGMA user_version`: after a crash, the next call goes on where this one was. Foreign keys are off in each, and checked before
   * its COMMIT. Append to the list; never change or remove what a cell may have had. Nothing else can run meanwhile: a second caller waits, and finds nothing to do.
   *
   * ```ts
   * cell.migrate([
   *   'CREATE TABLE users (id INTEGER PRIMARY KEY, name TEXT)',
   *   (cell) => cell.sql('UPDATE users SET name = trim(name)'),
   * ])
   * ```
   *
   * @throws `invalid_request` if the cell is at a higher version than the list has, inside a transaction, and for a
   * function that does not end when it returns; what a migration throws, after which those before it stay
   */
  migrate(migrations: readonly Migration[]): MigrateResult {
    if (!Array.isArray(migrations)) throw noMigrations()
    return migrate(
      () => this.#use(),
      migrations.map((migration, i) => this.#step(migration, i)),
    )
  }

  /**
   * Writes the cell into one SQLite file, or into a stream, while others use it: tables, indexes and the KV entries (in the
   * table `_cell_kv`), as they are when the copy is complete. `store.importCell()` takes it, and so does any SQLite.
   *
   * ```ts
   * await cell.export('acme.db')
   * ```
   *
   * @param target a path where no file is yet, or a `Writable`, which is ended after the last byte
   * @throws `invalid_request` if there is a file, or the path can't be used; `disk_full`, `no_backup`; the signal's reason; a stream's own error
   */
  async export(target: string | Writable, options: ExportOptions = {}): Promise<ExportResult> {
    await this.ensureLocal()
    const { spool } = this.#provider
    const assertExists = () => void this.#provider.record(this.id)
    return await exportCell(
      { database: () => this.#use(), assertExists, sizeBytes: this.sizeBytes, spool },
      target,
      options,
    )
  }

  /**
   * Runs `work` in one transaction with foreign keys off, and checks them before its COMMIT.
   *
   * @throws `constraint_violation`; as {@link Cell.transaction}
   * @internal
   */
  withoutForeignKeys(work: () => void): void {
    withoutForeignKeys(this.#use(), work)
  }

  /** By how much the cell's file may grow from here on, until it is closed. @internal */
  limitGrowth(growth: Growth): void {
    this.#use().limitGrowth(growth)
  }

  /** {@link Cell.sql} for a statement that has been parsed. @internal */
  run<Row>(statement: SqlStatement, params: SqlParams | undefined, options: SqlOptions): SqlResult<Row> {
    return this.#use().sql<Row>(statement, params, options)
  }

  /** {@link Cell.run} with values as SQLite has them. @internal */
  raw(
    statement: SqlStatement,
    params: SqlParams | MixedParams,
    options: Omit<SqlOptions, 'rowMode'>,
  ): RawResult {
    return this.#use().statement((runner) => runner.raw(statement, params, options))
  }

  /** What a statement would give. @internal */
  describe(statement: SqlStatement, options: SqlOptions): StatementDescription {
    return this.#use().statement((runner) => runner.describe(statement, options))
  }

  /** Inside of a transaction. @internal */
  openSavepoint(): OpenSavepoint {
    return this.#use().openSavepoint()
  }

  /** Outside of a transaction, and until the cell is closed. @internal */
  enforceForeignKeys(isOn: boolean): void {
    this.#use().enforceForeignKeys(isOn)
  }

  /**
   * Runs `work` in one transaction: all that it does to this cell, through `sql()` and `kv`, is committed when this
   * returns, or none of it if `work` throws. Inside another transaction it is a savepoint. `work` must not be async or a generator, nor
   * return a promise or an iterator: it would go on after the transaction (`invalid_request`, and nothing is kept).
   *
   * @returns what `work` returns
   * @throws what `work` throws; `cell_full`, `disk_full`, `busy`
   */
  transaction<T>(work: () => T): T {
    return this.#use().transaction(work)
  }

  /**
   * Runs `work` in the cell's next group commit: all work of one turn of the event loop shares one fsync, and each
   * piece is still all or nothing. `work` may run several times if another piece fails, so it must do nothing but use this
   * cell, and must end when it returns, as that of {@link transaction}.
   *
   * @returns resolves with what `work` returns, once it is on disk; with durability `remote`, once it is in the object store, too
   * @throws as {@link transaction}; `not_replicated`
   */
  commit<T>(work: () => T): Promise<T> {
    // Not async: each promise more is some percent of a put that shares its fsync with a hundred others.
    try {
      const commit = this.#use().commit(work)
      return this.#provider.isRemote(this.id) ? this.#commitRemote(commit) : commit
    } catch (error) {
      return Promise.reject(error)
    }
  }

  /**
   * Runs `work` in one transaction that waits for it: all that it does through `tx` is committed once its promise has resolved, or
   * none of it if that rejects. `tx` is the cell inside of the transaction, and has named savepoints, too.
   *
   * ```ts
   * await cell.hold(async (tx) => {
   *   const [order] = tx.sql('SELECT * FROM orders WHERE id = ?', [7]).rows
   *   const receipt = await payments.charge(order)
   *   tx.sql('UPDATE orders SET receipt = ? WHERE id = ?', [receipt.id, 7])
   * })
   * ```
   *
   * Meanwhile others read what is committed. Their changes wait if they are made with {@link commit} or with `hold`; all others
   * are refused (`busy`), and so is each change of the cell itself in place of `tx`. Whatever ends the transaction early, each later use of `tx` is refused:
   * nothing is committed on its own.
   *
   * @returns what `work` resolves with, once the transaction is on disk; with durability `remote`, once it is in the object store, too
   * @throws what `work` rejects with; `transaction_timeout` after `timeoutMs`, also if `work` goes on; `transaction_lost` if the
   * cell is closed, restored or deleted; `transaction_too_large`; the signal's reason; `not_replicated`; as {@link transaction}
   */
  async hold<T>(work: (tx: HeldCell) => T | Promise<T>, options: HoldOptions = {}): Promise<T> {
    checkOptions(options, HOLD_OPTIONS)
    if (typeof work !== 'function')
      throw new CellError('invalid_request', 'The work of a hold must be a function.', { field: 'work' })
    const { signal } = options
    signal?.throwIfAborted()
    const { tx, hold } = await this.#nextHold(options)
    const abort = () => hold.end(transactionLost('its caller has aborted it'))
    signal?.addEventListener('abort', abort, { once: true })
    const lost = hold.over.then(() => {
      throw hold.ended
    })
    lost.catch(() => {})
    let result: T
    try {
      result = await Promise.race([work(tx), lost])
      hold.commit()
    } catch (error) {
      hold.rollback()
      throw signal?.aborted ? signal.reason : error
    } finally {
      signal?.removeEventListener('abort', abort)
    }
    if (this.#provider.isRemote(this.id)) await this.#provider.replicated(this.id, {})
    return result
  }

  /**
   * A hold for its caller to end. What waits for the cell's group commit is committed before it.
   *
   * @throws `busy` beside another hold, unless this one only reads; `invalid_request` inside a transaction
   * @internal
   */
  beginHold({ timeoutMs = HOLD_MS_DEFAULT, ...bounds }: BeginHoldOptions = {}): { tx: HeldCell; hold: Hold } {
    const { clock } = this.#provider.settings
    const { hold, access } = this.#opened().beginHold({ clock, timeoutMs, ...bounds })
    return { tx: withSavepoints(new Cell(this.id, this.#provider, access), hold), hold }
  }

  /** Undefined if a hold can begin. Otherwise it resolves when one may, unless another one has begun. @internal */
  get heldUntil(): Promise<void> | undefined {
    return this.#opened().holds?.untilNext
  }

  async #nextHold({ timeoutMs, readOnly, signal }: HoldOptions): Promise<{ tx: HeldCell; hold: Hold }> {
    if (!readOnly)
      for (let over = this.heldUntil; over !== undefined; over = this.heldUntil)
        await unlessAborted(over, signal)
    return this.beginHold({ timeoutMs, readOnly })
  }

  async #commitRemote<T>(commit: Promise<T>): Promise<T> {
    const [result] = await Promise.all([commit, this.#provider.replicated(this.id, { commit })])
    return result
  }

  /**
   * Resolves once all that the cell has committed so far is in the object store, whatever its durability. Calls at the same
   * time share one object, and there are at most ten of these a second.
   *
   * ```ts
   * cell.kv.put('order/7', 'paid')
   * await cell.replicated()
   * ```
   *
   * @throws `not_replicated` if the object store does not take it in time: it is on this machine and will be shipped;
   * `object_store_not_configured`, `taken_over`; the signal's reason
   */
  async replicated(options: CallOptions = {}): Promise<void> {
    checkOptions(options, CALL)
    await this.#provider.replicated(this.id, { signal: options.signal })
  }

  /**
   * The cell's commits from now on, for `for await`: each once it is on disk, in their order, with the keys and tables that it
   * touched. The first change is a reset. A reset says: read again all that you need; changes follow from there on.
   *
   * ```ts
   * const prefix = 'session/'
   * for await (const change of cell.watch({ prefix, signal })) {
   *   const keys = change.type === 'commit' ? change.keys : null
   *   if (keys === null) sessions.clear()
   *   for await (const key of keys ?? cell.kv.keys({ prefix })) sessions.set(key, cell.kv.get(key))
   * }
   * ```
   *
   * A commit may name more than it changed, and never less; null means any key, or any table. An entry that expires is
   * named when it is collected. What other programs write into the file is not seen. Of a watched cell some of the newest
   * commits are kept (`watch` of the store): a reader that falls behind them gets a reset, and so does one whose
   * `lastEventId` is older.
   *
   * @returns ends with `break`; throws the signal's reason once it is aborted
   * @throws `invalid_request`, `invalid_key`; while it is read, `cell_not_found` once the cell is deleted, `store_closed`, `taken_over`
   */
  watch<O extends WatchOptions & Given<O, WatchOptions>>(options?: O): ChangeStream
  watch(options: WatchOptions = {}): ChangeStream {
    return this.#provider.watch(this.id, options)
  }

  #step(migration: Migration, index: number): () => unknown {
    if (typeof migration === 'string') return () => this.exec(migration)
    const field = `migrations[${index}]`
    if (typeof migration === 'function') {
      checkWork(migration, field)
      return () => migration(this)
    }
    throw new CellError('invalid_request', `${field} must be SQL text or a function.`, { field })
  }

  #use(): CellAccess {
    const database = this.#opened()
    return database.held === undefined ? database : database.access
  }

  #opened(): OpenCell {
    const database = this.#database
    if (database?.open) {
      database.touch()
      return database
    }
    this.#database = this.#provider.open(this.id)
    return this.#database
  }
}

function noMigrations(): CellError {
  const field = 'migrations'
  return new CellError('invalid_request', `${field} must be a list of SQL texts and functions.`, { field })
}
