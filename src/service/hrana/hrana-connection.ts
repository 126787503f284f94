import type { ResultLimits } from '../../base/options/limits.ts'
import type { ControlStatement } from '../../engine/sql-policy/transaction-control.ts'
import type { RawResult, StatementDescription } from '../../engine/statements/statement-runner.ts'
import { CellError } from '../../errors.ts'
import type { Cell } from '../../store/open/cell.ts'
import type { TransactionControl, WorkContext } from '../work-operation.ts'
import { HranaRefusal } from './hrana-errors.ts'
import type { HranaStatement, HranaStep } from './hrana-requests.ts'

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
  readonly #cell: () => Cell
  readonly #transactions: TransactionControl
  readonly #context: HranaContext
  #onlyReads = false
  /** Set for as long as the pipeline runs. */
  #hasForeignKeys = true
  /** A statement has run since foreign keys were turned off. */
  #hasRunWithout = false
  /** Of a transaction that began with a savepoint, and ends with its release: those that are open. */
  #outermost: string[] | undefined

  /** Something of its requests stays, whatever becomes of the rest: running them again would do it twice. */
  hasCommitted = false

  /** @param cell is asked for each statement */
  constructor(cell: () => Cell, transactions: TransactionControl, context: HranaContext) {
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
    this.#begin()
    try {
      const taken = take(this.#run(step))
      this.#commit()
      return taken
    } catch (error) {
      if (!this.isAutocommit) this.#transactions.rollback()
      throw error
    }
  }

  describe({ sql, control }: HranaStatement): StatementDescription {
    if (control !== undefined) return { params: [], columns: [], isExplain: false, isReadOnly: true }
    refuseBlank(sql.head.verb)
    return this.#cell().describe(sql, this.#options)
  }

  /** Rolls back what is open. */
  close(): void {
    if (!this.isAutocommit) this.#transactions.rollback()
    this.#outermost = undefined
  }

  /** The pipeline has failed as a whole: nothing of it stays. Never throws. */
  abandon(): void {
    for (const undo of [
      () => this.close(),
      () => this.#hasForeignKeys || this.#cell().enforceForeignKeys(true),
    ])
      try {
        undo()
      } catch {
        // The cell can't be used, or the transaction is over.
      }
  }

  /**
   * The pipeline is over. Puts back what it has set for itself.
   *
   * @throws `invalid_request` if a transaction that needs that is still open, which is rolled back, and if nothing came after
   * `foreign_keys = OFF`: who sends that alone goes on to drop a table, and would lose the rows that refer to it
   */
  end(): void {
    if (this.#hasForeignKeys && this.#outermost === undefined) return
    const isOpen = !this.isAutocommit
    const isAlone = !this.#hasForeignKeys && !this.#hasRunWithout
    this.close()
    if (!this.#hasForeignKeys) this.#cell().enforceForeignKeys(true)
    this.#hasForeignKeys = true
    if (isOpen || isAlone) throw new CellError('invalid_request', LASTS_ONE_REQUEST)
  }

  #run({ sql, params }: HranaStep): RawResult {
    refuseBlank(sql.head.verb)
    this.#hasRunWithout = true
    const { clock, slow } = this.#context
    const started = clock.monotonic()
    try {
      return this.#cell().raw(sql, params, this.#options)
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
        this.#begin(statement)
        break
      case 'commit':
        if (this.isAutocommit) throw sqlError('cannot commit - no transaction is active')
        this.#outermost = undefined
        this.#commit()
        break
      case 'rollback':
        if (this.isAutocommit) throw sqlError('cannot rollback - no transaction is active')
        this.close()
        break
      case 'savepoint':
        this.#savepoint(statement.name)
        break
      case 'release':
        this.#release(statement.name)
        break
      case 'rollback to': {
        if (this.isAutocommit) throw noSavepoint(statement.name)
        transactions.rollbackTo(statement.name)
        const at = this.#outermost?.lastIndexOf(statement.name) ?? -1
        if (at >= 0) this.#outermost?.splice(at + 1)
        break
      }
      case 'foreign keys':
        return this.#foreignKeys(statement.isOn)
    }
    return NO_RESULT
  }

  /** Who may only read must not hold up those who change the cell. */
  #begin({ readOnly = false }: { readOnly?: boolean } = {}): void {
    this.#onlyReads = readOnly
    this.#transactions.begin({ readOnly: readOnly || this.#context.readOnly === true })
  }

  #commit(): void {
    this.#transactions.commit()
    // Without a session this is a savepoint of a transaction that is not over yet.
    this.hasCommitted = this.#context.session !== undefined
  }

  #savepoint(name: string): void {
    if (this.isAutocommit) {
      this.#begin()
      this.#outermost = []
    }
    this.#transactions.savepoint(name)
    this.#outermost?.push(name)
  }

  #release(name: string): void {
    if (this.isAutocommit) throw noSavepoint(name)
    const at = this.#outermost?.lastIndexOf(name)
    if (at === 0) {
      this.#outermost = undefined
      this.#commit()
      return
    }
    this.#transactions.releaseSavepoint(name)
    if (at !== undefined) this.#outermost?.splice(at)
  }

  /** SQLite ignores the setting inside a transaction. */
  #foreignKeys(isOn: boolean | undefined): RawResult {
    if (isOn === undefined) {
      const rows = [[this.#hasForeignKeys ? 1n : 0n]]
      return { ...NO_RESULT, columns: [{ name: 'foreign_keys', type: null }], rows }
    }
    if (this.isAutocommit && isOn !== this.#hasForeignKeys) {
      this.#cell().enforceForeignKeys(isOn)
      this.#hasForeignKeys = isOn
      this.#hasRunWithout = false
    }
    return NO_RESULT
  }
}

function refuseBlank(verb: string): void {
  if (verb === 'BLANK') throw new HranaRefusal('SQL_NO_STATEMENT', 'The text contains no SQL statement.')
}

const LASTS_ONE_REQUEST =
  'PRAGMA foreign_keys = OFF, and a savepoint outside of BEGIN, last for one request to the server. Send all that needs it in the same request, as migrate() and executeMultiple() of the clients do. A transaction that was open is rolled back.'

function noSavepoint(name: string): CellError {
  return sqlError(`no such savepoint: ${name}`)
}

function sqlError(message: string): CellError {
  return new CellError('sql_error', message, { sqliteCode: 'SQLITE_ERROR' })
}
