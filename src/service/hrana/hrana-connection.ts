import type { ResultLimits } from '../../base/options/limits.ts'
import type { ControlStatement } from '../../engine/sql-policy/transaction-control.ts'
import type { RawResult, StatementDescription } from '../../engine/statements/statement-runner.ts'
import { CellError } from '../../errors.ts'
import type { Cell } from '../../store/open/cell.ts'
import type { WorkContext } from '../work-operation.ts'
import { HranaRefusal } from './hrana-errors.ts'
import type { HranaStatement, HranaStep } from './hrana-requests.ts'

/** Where a connection's transactions and savepoints begin and end. */
export interface TransactionControl {
  readonly inTransaction: boolean
  begin(options?: { readOnly?: boolean }): void
  commit(): void
  rollback(): void
  savepoint(name: string): void
  releaseSavepoint(name: string): void
  rollbackTo(name: string): void
}

/** How the statements of a connection run. */
export interface HranaContext extends WorkContext {
  /** Of each statement's result. */
  result: ResultLimits
}

const NO_RESULT: RawResult = { columns: [], rows: [], changes: 0, lastInsertRowid: null }

/**
 * A connection as the clients of Hrana see one: BEGIN, COMMIT, savepoints and `PRAGMA foreign_keys` are statements, and outside of a
 * transaction each statement is committed on its own.
 */
export class HranaConnection {
  readonly #cell: Cell
  readonly #transactions: TransactionControl
  readonly #context: HranaContext
  #onlyReads = false
  /** Set for as long as the pipeline runs. */
  #hasForeignKeys = true

  constructor(
    cell: Cell,
    transactions: TransactionControl,
    context: HranaContext,
  ) {
    this.#cell = cell
    this.#transactions = transactions
    this.#context = context
  }

  get isAutocommit(): boolean {
    return !this.#transactions.inTransaction
  }

  /**
   * Runs one statement.
   *
   * @param take gets its result before it is committed: if it throws, the statement is undone
   */
  execute<T>(step: HranaStep, take: (result: RawResult) => T): T {
    if (step.control !== undefined) return take(this.#carryOut(step.control))
    if (!this.isAutocommit || !step.changes) return take(this.#run(step))
    this.#transactions.begin()
    try {
      const taken = take(this.#run(step))
      this.#transactions.commit()
      return taken
    } catch (error) {
      if (!this.isAutocommit) this.#transactions.rollback()
      throw error
    }
  }

  describe({ sql, control }: HranaStatement): StatementDescription {
    if (control !== undefined) return { params: [], columns: [], isExplain: false, isReadOnly: true }
    refuseBlank(sql.head.verb)
    return this.#cell.describe(sql, this.#options)
  }

  /** Rolls back what is open. */
  close(): void {
    if (!this.isAutocommit) this.#transactions.rollback()
  }

  /**
   * Puts back what the pipeline has set for itself.
   *
   * @throws `invalid_request` if that can't be done, for a transaction that is still open; it is rolled back
   */
  restoreSettings(): void {
    if (this.#hasForeignKeys) return
    const isOpen = !this.isAutocommit
    this.close()
    this.#cell.enforceForeignKeys(true)
    this.#hasForeignKeys = true
    if (!isOpen) return
    const message =
      'PRAGMA foreign_keys lasts for one request to the server: send all of its transaction in the same batch. It was rolled back.'
    throw new CellError('invalid_request', message)
  }

  #run({ sql, params }: HranaStep): RawResult {
    refuseBlank(sql.head.verb)
    const { clock, slow } = this.#context
    const started = clock.monotonic()
    try {
      return this.#cell.raw(sql, params, this.#options)
    } finally {
      const ms = clock.monotonic() - started
      if (slow !== undefined && ms >= slow.fromMs) slow.tell(sql.sql, ms)
    }
  }

  get #options() {
    const { sqlPolicy, readOnly, result } = this.#context
    const onlyReads = readOnly === true || (this.#onlyReads && !this.isAutocommit)
    return { policy: sqlPolicy, readOnly: onlyReads, limits: result }
  }

  #carryOut(statement: ControlStatement): RawResult {
    const transactions = this.#transactions
    switch (statement.control) {
      case 'begin':
        if (!this.isAutocommit) throw sqlError('cannot start a transaction within a transaction')
        this.#onlyReads = statement.readOnly
        transactions.begin({ readOnly: statement.readOnly })
        break
      case 'commit':
        if (this.isAutocommit) throw sqlError('cannot commit - no transaction is active')
        transactions.commit()
        break
      case 'rollback':
        if (this.isAutocommit) throw sqlError('cannot rollback - no transaction is active')
        transactions.rollback()
        break
      case 'savepoint':
        transactions.savepoint(statement.name)
        break
      case 'release':
        transactions.releaseSavepoint(statement.name)
        break
      case 'rollback to':
        transactions.rollbackTo(statement.name)
        break
      case 'foreign keys':
        return this.#foreignKeys(statement.isOn)
    }
    return NO_RESULT
  }

  /** SQLite ignores the setting inside a transaction. */
  #foreignKeys(isOn: boolean | undefined): RawResult {
    if (isOn === undefined) {
      const rows = [[this.#hasForeignKeys ? 1n : 0n]]
      return { ...NO_RESULT, columns: [{ name: 'foreign_keys', type: null }], rows }
    }
    if (this.isAutocommit && isOn !== this.#hasForeignKeys) {
      this.#cell.enforceForeignKeys(isOn)
      this.#hasForeignKeys = isOn
    }
    return NO_RESULT
  }
}

function refuseBlank(verb: string): void {
  if (verb === 'BLANK') throw new HranaRefusal('SQL_NO_STATEMENT', 'The text contains no SQL statement.')
}

function sqlError(message: string): CellError {
  return new CellError('sql_error', message, { sqliteCode: 'SQLITE_ERROR' })
}
