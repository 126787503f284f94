import type { Limits, ResultLimits } from '../../base/options/limits.ts'
import { CellError } from '../../errors.ts'
import type { CellDatabaseSettings, SqlPolicy } from '../cell-settings.ts'
import type { Transactions } from '../commits/transactions.ts'
import type { KeptReads } from '../kept-reads.ts'
import { checkFullTextCommands } from '../sql-policy/sql-full-text.ts'
import type { SqlText } from '../sql-policy/sql-statement.ts'
import type { Connection, Statement } from '../sqlite.ts'
import type { CommitRecorder } from '../watch/commit-recorder.ts'
import { attach, orSqlError } from './attach.ts'
import { withoutRowids } from './last-rowid.ts'
import { type BoundParams, encodeParams } from './parameters.ts'
import { Placeholders } from './placeholders.ts'
import { type ColumnDescription, type PreparedStatement, PreparedStatements } from './prepared-statements.ts'
import { collectRows, decodeObject, decodeRow, type RawRow, rowObject } from './rows.ts'
import type { MixedParams, SqlParams, SqlResult, SqlRow, SqlValue } from './sql-values.ts'

/** How one statement is run. */
export interface SqlOptions {
  /** Instead of the store's `sqlPolicy`. */
  policy?: SqlPolicy | undefined
  /** True: a statement that could change the cell is refused (`forbidden`), and the policy is `tenant`. */
  readOnly?: boolean
  /** `object`, the default: rows by column name. `array`: rows are arrays of values in column order. */
  rowMode?: 'object' | 'array' | undefined
  /** Bounds on the result; without them, all rows are returned. */
  limits?: ResultLimits | undefined
}

export interface RunnerEvents {
  /** Before a text is prepared, after it has passed the policy. Returns true if it made anything in the schema. */
  beforePrepare(sql: string): boolean
  /** Before a change. Throws if none is possible now. */
  changing(): void
  /** After a change outside of {@link Transactions}. Must not throw. */
  changed(): void
  /** Runs a statement that deletes; a second time if the first has failed without a trace. */
  deletion<T>(run: () => T): T
  /** Notes what statements touch; undefined while nobody watches the cell. */
  recorder(): CommitRecorder | undefined
}

const CHANGES = 'SELECT changes(), last_insert_rowid()'

const SCHEMA_BYTES = 'SELECT ifnull(sum(octet_length(sql)), 0) FROM main.sqlite_schema'

/** Those that can hold a command with a value to a full-text table. */
const TRIGGERS = "SELECT sql FROM main.sqlite_schema WHERE type = 'trigger' AND sql LIKE '%rank%'"

type AnyResult = SqlResult<SqlRow | SqlValue[]>

/** With rows as the driver gives them, which tell an INTEGER from a REAL. */
type RunOptions = Omit<SqlOptions, 'rowMode'> & { rowMode?: SqlOptions['rowMode'] | 'raw' }

/** What a statement gives, as SQLite has it. */
export interface RawResult {
  columns: readonly ColumnDescription[]
  rows: RawRow[]
  changes: number
  lastInsertRowid: number | bigint | null
}

/** What is known of a statement before it runs. */
export interface StatementDescription {
  /** Names of its placeholders by SQLite's number, with their signs; null for `?`. */
  params: (string | null)[]
  columns: readonly ColumnDescription[]
  isExplain: boolean
  isReadOnly: boolean
}

/** Runs the statements of callers. */
export class StatementRunner {
  readonly statements: PreparedStatements
  readonly #limits: Limits
  readonly #defaultPolicy: SqlPolicy
  readonly #transactions: Transactions
  readonly #connection: Connection
  readonly #reads: KeptReads
  readonly #events: RunnerEvents
  readonly #storeDirectory: string | undefined
  #changes: Statement | undefined

  constructor(
    connection: Connection,
    reads: KeptReads,
    settings: Pick<CellDatabaseSettings, 'limits' | 'sqlPolicy' | 'ownerFunctions' | 'storeDirectory'>,
    transactions: Transactions,
    events: RunnerEvents,
  ) {
    this.statements = new PreparedStatements(connection, settings, (sql) => events.beforePrepare(sql))
    this.#connection = connection
    this.#reads = reads
    this.#limits = settings.limits
    this.#defaultPolicy = settings.sqlPolicy
    this.#storeDirectory = settings.storeDirectory
    this.#transactions = transactions
    this.#events = events
  }

  /** Prepares a statement without running it. @returns whether it gives rows */
  prepare(sql: SqlText, options: SqlOptions): boolean {
    return this.#find(sql, options).reader
  }

  /** @param keep see {@link PreparedStatements.find} */
  run(sql: SqlText, params: SqlParams, options: SqlOptions, keep = true): AnyResult {
    const prepared = this.#find(sql, options, keep)
    return this.#runChecked(prepared, params, options)
  }

  /** {@link run} for a protocol with types of its own. */
  raw(sql: SqlText, params: SqlParams | MixedParams, options: Omit<SqlOptions, 'rowMode'>): RawResult {
    const prepared = this.#find(sql, options)
    const result = this.#runChecked(prepared, params, { ...options, rowMode: 'raw' })
    const { changes, lastInsertRowid } = result
    // A raw row is one of values.
    return {
      columns: this.statements.described(prepared),
      rows: result.rows as RawRow[],
      changes,
      lastInsertRowid,
    }
  }

  /** Prepares a statement without running it. */
  describe(sql: SqlText, options: SqlOptions): StatementDescription {
    const prepared = this.#find(sql, options)
    const { statement, isListing, changesUnseen } = prepared
    return {
      params: Placeholders.in(statement.source).names,
      columns: this.statements.described(prepared),
      isExplain: isListing,
      isReadOnly: statement.readonly && !changesUnseen,
    }
  }

  /**
   * The first row, or undefined. Of a statement that only reads, SQLite looks for no other.
   *
   * @throws `invalid_request` for a statement that gives no rows; it has not run
   */
  first(sql: SqlText, params: SqlParams, options: SqlOptions): SqlRow | SqlValue[] | undefined {
    const prepared = this.#find(sql, options)
    const { statement, asObjects } = prepared
    if (!prepared.reader) throw noRows()
    const isArray = options.rowMode === 'array'
    const isPlain = prepared.onlyReads && (isArray || asObjects !== undefined)
    if (!isPlain) return this.#runChecked(prepared, params, options).rows[0]
    const bound = encodeParams(params, this.#limits, prepared)
    const toRun = asObjects === undefined || isArray ? statement : asObjects()
    this.#reads.before()
    if (toRun === statement) {
      const row = statement.get(...bound) as RawRow | undefined
      return row && decodeRow(row)
    }
    const row = toRun.get(...bound) as Record<string, RawRow[number]> | undefined
    return row && decodeObject(row)
  }

  #find(sql: SqlText, options: SqlOptions, keep?: boolean): PreparedStatement {
    const prepared = this.#findAllowed(sql, options, keep)
    // Also if it is not run: SQLite carries some PRAGMAs out while it prepares them.
    if (prepared.defersKeys) this.#transactions.defersKeys()
    return prepared
  }

  /** To SQLite, ATTACH, BEGIN, some PRAGMAs and functions that write only read: the tenants' policy refuses those. */
  #findAllowed(sql: SqlText, { policy, readOnly }: SqlOptions, keep?: boolean): PreparedStatement {
    if (readOnly !== true) return this.statements.find(sql, policy ?? this.#defaultPolicy, keep)
    const prepared = this.statements.find(sql, 'tenant', keep)
    if (!prepared.statement.readonly || prepared.changesUnseen) throw mayOnlyRead()
    return prepared
  }

  #runChecked(prepared: PreparedStatement, params: SqlParams | MixedParams, options: RunOptions): AnyResult {
    const bound = encodeParams(params, this.#limits, prepared)
    if (prepared.onlyReads) this.#reads.before()
    const result = prepared.deletes
      ? this.#events.deletion(() => this.#run(prepared, bound, options))
      : this.#run(prepared, bound, options)
    if (!prepared.onlyReads) this.#transactions.checkAfterStatement()
    return result
  }

  #run(prepared: PreparedStatement, bound: BoundParams, options: RunOptions): AnyResult {
    try {
      if (prepared.opensFile !== undefined) return this.#openFile(prepared, bound)
      if (prepared.growsSchema) return this.#transactions.run(() => this.#growSchema(prepared, bound))
      if (!prepared.statement.reader) return this.#change(prepared, bound)
      if (prepared.statement.readonly) return this.#read(prepared, bound, options)
      // RETURNING: the rows come during the change, so that too many of them must undo it.
      return this.#transactions.run(() => this.#changeAndRead(prepared, bound, options))
    } catch (error) {
      throw withoutRowids(error, this.#connection, prepared, bound)
    }
  }

  #openFile(prepared: PreparedStatement, bound: BoundParams): AnyResult {
    const run = () => this.#change(prepared, bound)
    if (prepared.opensFile === 'ATTACH') return attach(this.#connection, this.#storeDirectory, run)
    // Any other error may be of the cell's own file.
    return orSqlError('The copy was not made', run, (code) => code === 'SQLITE_CANTOPEN')
  }

  /** Only afterwards is it known how long the schema is, and what is in it: an ALTER may rename in many places. */
  #growSchema(prepared: PreparedStatement, bound: BoundParams): AnyResult {
    const result = this.#change(prepared, bound)
    if (prepared.renames && prepared.tenantSafe) this.#checkTriggers()
    const bytes = this.#connection.prepare(SCHEMA_BYTES).pluck().get() as number
    const limit = this.#limits.schemaBytesMax
    if (bytes <= limit) return result
    throw new CellError(
      'cell_full',
      `The schema of the cell would have ${bytes} bytes of SQL text; it may have ${limit} (limits.schemaBytesMax). Drop something first.`,
      { limit, usage: bytes },
    )
  }

  #checkTriggers(): void {
    const texts = this.#connection.prepare(TRIGGERS).pluck().all() as string[]
    for (const sql of texts) checkFullTextCommands(sql)
  }

  #change(prepared: PreparedStatement, bound: BoundParams): AnyResult {
    const { statement, changesRows, changesSchema, insertRowid } = prepared
    this.#events.changing()
    insertRowid.begin()
    const recorder = this.#events.recorder()
    const { changes, lastInsertRowid } =
      recorder === undefined
        ? statement.run(...bound)
        : recorder.statement(prepared, bound, this.statements.version, () => statement.run(...bound))
    if (changesSchema) this.statements.schemaChanged()
    if (this.#transactions.depth === 0) this.#events.changed()
    return {
      columns: [],
      rows: [],
      changes: changesRows ? changes : 0,
      lastInsertRowid: insertRowid.end(changes, lastInsertRowid as bigint),
    }
  }

  #changeAndRead(prepared: PreparedStatement, bound: BoundParams, options: RunOptions): AnyResult {
    const { changesRows, insertRowid } = prepared
    insertRowid.begin()
    const recorder = this.#events.recorder()
    const read = () => this.#read(prepared, bound, options)
    const result =
      recorder === undefined ? read() : recorder.statement(prepared, bound, this.statements.version, read)
    if (!changesRows) return result
    this.#changes ??= this.#connection.prepare(CHANGES).raw().safeIntegers() as Statement
    const [changes, rowid] = this.#changes.get() as [bigint, bigint]
    result.changes = Number(changes)
    result.lastInsertRowid = insertRowid.end(result.changes, rowid)
    return result
  }

  #read(prepared: PreparedStatement, bound: BoundParams, { rowMode, limits }: RunOptions): AnyResult {
    const { statement, changesUnseen } = prepared
    if (changesUnseen) this.#events.changing()
    const decode = rowMode === 'raw' ? asItIs : decodeRow
    const values = limits
      ? collectRows(statement.iterate(...bound) as Iterable<RawRow>, limits, decode)
      : (statement.all(...bound) as RawRow[]).map(decode)
    if (prepared.isListing) hideAddresses(values)
    if (changesUnseen) this.#events.recorder()?.unseen()
    if (changesUnseen && this.#transactions.depth === 0) this.#events.changed()
    const columns = this.statements.columns(prepared)
    return {
      columns: [...columns],
      rows: rowMode === 'array' || rowMode === 'raw' ? values : values.map((row) => rowObject(columns, row)),
      changes: 0,
      lastInsertRowid: null,
    }
  }
}

export function mayOnlyRead(): CellError {
  return new CellError('forbidden', 'This could change the cell, and only reading is allowed here.')
}

function asItIs(row: RawRow): SqlValue[] {
  return row
}

function noRows(): CellError {
  const text = 'The statement gives no rows: use cell.sql(), or run() of a prepared statement.'
  return new CellError('invalid_request', text, { field: 'sql' })
}

/** EXPLAIN shows the memory address of a virtual table, such as `vtab:55D0C8E3F2A0`, in column p4. */
function hideAddresses(listing: SqlValue[][]): void {
  for (const row of listing) {
    if (typeof row[5] === 'string' && typeof row[1] === 'string' && row[1].startsWith('V'))
      row[5] = row[5].replace(/^vtab:[0-9A-Fa-fx]+$/, 'vtab')
  }
}
