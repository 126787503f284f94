import type { CellError } from '../../errors.ts'
import type { CellDatabaseSettings } from '../cell-settings.ts'
import { CellState } from '../cell-state.ts'
import { Transactions } from '../commits/transactions.ts'
import type { CopyOptions } from '../files/database-copy.ts'
import { KeepingConnection, type KeptReads } from '../kept-reads.ts'
import type { SqlText } from '../sql-policy/sql-statement.ts'
import { type Connection, openConnection, type Statement } from '../sqlite.ts'
import { isSqliteError } from '../sqlite-errors.ts'
import type { SqlParams, SqlResult } from '../statements/sql-values.ts'
import { type SqlOptions, StatementRunner } from '../statements/statement-runner.ts'
import type { CellAccess } from './cell-access.ts'
import type { HoldBounds } from './hold.ts'

/** The cell whose committed state is read. */
export interface ReadCell
  extends Pick<CellAccess, 'quarantined' | 'failure' | 'touch' | 'commit' | 'copyTo' | 'beginHold'> {
  readonly path: string
  readonly settings: CellDatabaseSettings
}

export interface ReaderEvents {
  /** As `CellHooks.beforePrepare`. */
  beforePrepare(reader: CommittedReader, sql: string): boolean
  /** What a change is refused with. */
  refusal(): CellError
}

/** What is committed of a cell, through a second connection that cannot write: for everybody but the hold, while one is open. */
export class CommittedReader implements CellAccess {
  readonly recorder = undefined
  readonly transactions: Transactions
  readonly reads: KeptReads
  readonly #connection: Connection
  readonly #state: CellState
  readonly #runner: StatementRunner
  readonly #cell: ReadCell
  readonly #refuse: () => never

  /** @throws SQLite's errors */
  constructor(cell: ReadCell, { beforePrepare, refusal }: ReaderEvents) {
    const { path, settings } = cell
    this.#cell = cell
    this.#refuse = () => {
      throw refusal()
    }
    const connection = new KeepingConnection(openConnection(path, { readonly: true }))
    const { reads } = connection
    this.#connection = connection
    this.reads = reads
    connection.configure(settings)
    this.#state = new CellState({ path, limits: settings.limits }, {})
    this.transactions = new Transactions(connection, this.#state, reads, {
      begin: this.#refuse,
      commit: (run) => run(),
      committed() {},
      mark: () => undefined,
      rolledBack() {},
    })
    this.#runner = new StatementRunner(connection, reads, settings, this.transactions, {
      beforePrepare: (sql) => beforePrepare(this, sql),
      changing: this.#refuse,
      changed() {},
      deletion: (run) => run(),
      recorder: () => undefined,
    })
  }

  get open(): boolean {
    return this.#state.open
  }

  get quarantined(): CellError | undefined {
    return this.#cell.quarantined
  }

  get usable(): boolean {
    return this.#state.usable && this.quarantined === undefined
  }

  get inTransaction(): boolean {
    return this.#connection.inTransaction
  }

  assertUsable(): void {
    if (this.quarantined !== undefined) throw this.quarantined
    this.#state.assertUsable()
  }

  touch(): void {
    this.#cell.touch()
  }

  prepare(sql: string): Statement {
    return this.#connection.prepare(sql)
  }

  exec(sql: string): void {
    this.#connection.exec(sql)
  }

  defineFunction(name: string, run: () => number): void {
    this.#connection.function(name, { deterministic: false }, run)
  }

  failure(error: unknown): CellError {
    if (this.open) this.transactions.checkAfterStatement()
    return this.#cell.failure(error)
  }

  sql<Row>(sql: SqlText, params: SqlParams = [], options: SqlOptions = {}): SqlResult<Row> {
    return this.statement((runner) => runner.run(sql, params, options) as SqlResult<Row>)
  }

  statement<T>(use: (runner: StatementRunner) => T): T {
    this.assertUsable()
    try {
      return use(this.#runner)
    } catch (error) {
      throw this.failure(error)
    }
  }

  read<T>(work: () => T): T {
    return this.#translated(() => this.transactions.read(work))
  }

  /** In a hold that only reads, a savepoint. */
  transaction<T>(work: () => T): T {
    return this.#translated(() => this.transactions.run(work))
  }

  openSavepoint(): never {
    return this.#refuse()
  }

  /** Waits for the end of the hold. */
  commit<T>(work: () => T): Promise<T> {
    return this.#cell.commit(work)
  }

  write(): never {
    return this.#refuse()
  }

  writeDelete(): never {
    return this.#refuse()
  }

  /** Nothing grows here: what would change anything is refused where it runs. */
  limitGrowth(): void {}

  enforceForeignKeys(): never {
    return this.#refuse()
  }

  copyTo(target: string, options?: CopyOptions): Promise<void> {
    return this.#cell.copyTo(target, options)
  }

  beginHold(bounds: HoldBounds): ReturnType<CellAccess['beginHold']> {
    return this.#cell.beginHold(bounds)
  }

  close(): void {
    if (!this.open) return
    this.#state.close()
    this.#connection.close()
  }

  #translated<T>(run: () => T): T {
    this.assertUsable()
    try {
      return run()
    } catch (error) {
      throw isSqliteError(error) ? this.failure(error) : error
    }
  }
}
