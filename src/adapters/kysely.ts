// cellstore/kysely: Kysely on a cell.

import {
  type CompiledQuery,
  type DatabaseConnection,
  type DatabaseIntrospector,
  type DatabaseMetadataOptions,
  type Driver,
  type Kysely,
  type QueryResult,
  RawNode,
  SelectQueryNode,
  SqliteAdapter,
  SqliteDialect,
  SqliteIntrospector,
  type TableMetadata,
  type TransactionSettings,
} from 'kysely'
import { type Cell, type HeldCell, isCellError, type SqlParam } from '../index.ts'

/** How {@link CellDialect} runs transactions. */
export interface CellDialectOptions {
  /** Milliseconds that a transaction may take, from its beginning: 5,000 by default. */
  transactionTimeoutMs?: number | undefined
}

/**
 * Kysely's dialect for a cell.
 *
 * ```ts
 * const db = new Kysely<Schema>({ dialect: new CellDialect(store.cell('acme')) })
 * ```
 *
 * A transaction is a hold of the cell (`cell.hold()`): beside it others read what is committed, and their changes wait. So they do if
 * `db` is used in place of `trx`: a change that is awaited there waits for itself, and the transaction ends with `transaction_timeout`. Changes
 * of one turn of the event loop share one fsync. Migrations run in one transaction, unless `disableTransactions` is set. `db.destroy()` does nothing
 * to the cell.
 */
export class CellDialect extends SqliteDialect {
  readonly #cell: Cell
  readonly #options: CellDialectOptions

  constructor(cell: Cell, options: CellDialectOptions = {}) {
    super({ database: () => Promise.reject(new Error('A cell is opened by its store.')) })
    this.#cell = cell
    this.#options = options
  }

  /** Called by Kysely. */
  override createDriver(): Driver {
    return new CellDriver(this.#cell, this.#options)
  }

  /** Called by Kysely. */
  override createAdapter(): SqliteAdapter {
    return new CellAdapter()
  }

  /** Called by Kysely. */
  // biome-ignore lint/suspicious/noExplicitAny: as Kysely declares it
  override createIntrospector(db: Kysely<any>): DatabaseIntrospector {
    return new CellIntrospector(db)
  }
}

class CellAdapter extends SqliteAdapter {
  override get supportsMultipleConnections(): boolean {
    return true
  }

  override get supportsTransactionalDdl(): boolean {
    return true
  }
}

/** Without the tables of the engine, which can't be dropped. */
class CellIntrospector extends SqliteIntrospector {
  override async getTables(options?: DatabaseMetadataOptions): Promise<TableMetadata[]> {
    return (await super.getTables(options)).filter(({ name }) => !name.startsWith('_cell'))
  }
}

class CellDriver implements Driver {
  readonly #cell: Cell
  readonly #options: CellDialectOptions

  constructor(cell: Cell, options: CellDialectOptions) {
    this.#cell = cell
    this.#options = options
  }

  async init(): Promise<void> {}

  async acquireConnection(): Promise<CellConnection> {
    return new CellConnection(this.#cell, this.#options)
  }

  async beginTransaction(connection: CellConnection, settings: TransactionSettings): Promise<void> {
    await connection.begin(settings.accessMode === 'read only')
  }

  async commitTransaction(connection: CellConnection): Promise<void> {
    await connection.end(true)
  }

  async rollbackTransaction(connection: CellConnection): Promise<void> {
    await connection.end(false)
  }

  async savepoint(connection: CellConnection, name: string): Promise<void> {
    connection.held.savepoint(name)
  }

  async rollbackToSavepoint(connection: CellConnection, name: string): Promise<void> {
    connection.held.rollbackTo(name)
  }

  async releaseSavepoint(connection: CellConnection, name: string): Promise<void> {
    connection.held.releaseSavepoint(name)
  }

  async releaseConnection(): Promise<void> {}

  async destroy(): Promise<void> {}
}

/** An open hold, which ends when Kysely says so. */
interface OpenHold {
  tx: HeldCell
  /** @param isKept false: it is rolled back */
  end(isKept: boolean): void
  /** Settles when it has ended. */
  over: Promise<void>
}

class CellConnection implements DatabaseConnection {
  readonly #cell: Cell
  readonly #options: CellDialectOptions
  #open: OpenHold | undefined

  constructor(cell: Cell, options: CellDialectOptions) {
    this.#cell = cell
    this.#options = options
  }

  get held(): HeldCell {
    return (this.#open as OpenHold).tx
  }

  async begin(readOnly: boolean): Promise<void> {
    const begun = Promise.withResolvers<HeldCell>()
    const ended = Promise.withResolvers<void>()
    const timeoutMs = this.#options.transactionTimeoutMs
    const work = (tx: HeldCell) => {
      begun.resolve(tx)
      return ended.promise
    }
    const over = this.#cell.hold(work, { timeoutMs, readOnly })
    over.catch(begun.reject)
    const end = (isKept: boolean) => (isKept ? ended.resolve() : ended.reject(new Error('Rolled back')))
    this.#open = { tx: await begun.promise, end, over }
  }

  async end(isKept: boolean): Promise<void> {
    const open = this.#open
    this.#open = undefined
    // After a COMMIT that has failed Kysely asks for a rollback.
    if (open === undefined) return
    open.end(isKept)
    await (isKept ? open.over : open.over.catch(() => {}))
  }

  async executeQuery<R>({ sql, parameters, query }: CompiledQuery): Promise<QueryResult<R>> {
    const cell = this.#open?.tx ?? this.#cell
    const run = () => resultOf<R>(cell, sql, parameters)
    if (this.#open !== undefined) return run()
    // What Kysely did not build may be a PRAGMA, which SQLite takes outside of a transaction alone.
    if (!SelectQueryNode.is(query) && !RawNode.is(query)) return await cell.commit(run)
    try {
      return run()
    } catch (error) {
      // Another transaction has the cell.
      if (!isCellError(error, 'busy')) throw error
      return await cell.commit(run)
    }
  }

  async *streamQuery<R>({ sql, parameters }: CompiledQuery): AsyncGenerator<QueryResult<R>> {
    const statement = (this.#open?.tx ?? this.#cell).prepare<R>(sql)
    for (const row of statement.iterate(parameters as SqlParam[])) yield { rows: [row] }
  }
}

function resultOf<R>(cell: Cell, sql: string, parameters: readonly unknown[]): QueryResult<R> {
  const { rows, changes, lastInsertRowid } = cell.sql<R>(sql, parameters as SqlParam[])
  return {
    rows,
    numAffectedRows: BigInt(changes),
    ...(lastInsertRowid === null ? {} : { insertId: BigInt(lastInsertRowid) }),
  }
}
