import { CellError } from '../errors.ts'
import type { Connection, Statement } from './sqlite.ts'

export interface TransactionEvents {
  /** Before each BEGIN. Throws if nothing may be changed now. */
  begin(): void
  /** Before each BEGIN and each COMMIT. Throws if nothing may be committed any more. */
  assertSound(): void
  /** Runs each COMMIT. */
  commit(run: () => void): void
  /** After each COMMIT that succeeded. Must not throw. */
  committed(): void
  /** After anything was rolled back, a savepoint or all. */
  rolledBack(): void
  /** The transaction that the caller is in is gone, or that is over. */
  lostChanged(lost: boolean): void
}

const DEFERRED_KEYS =
  "SELECT 1 FROM main.sqlite_schema WHERE type = 'table' AND sql LIKE '%deferred%' LIMIT 1"

type ControlSql =
  | 'BEGIN'
  | 'BEGIN IMMEDIATE'
  | 'COMMIT'
  | 'ROLLBACK'
  | 'SAVEPOINT nested'
  | 'RELEASE nested'
  | 'ROLLBACK TO nested'

/**
 * Where every transaction of one connection begins and ends. A transaction that a statement ends by itself (`OR ROLLBACK`,
 * `RAISE(ROLLBACK)`, a full disk) is *lost*: SQLite would commit each statement after it by itself, so there must be
 * none until the caller has left the transaction (invariant 6).
 */
export class Transactions {
  readonly #connection: Connection
  readonly #events: TransactionEvents
  /** Prepared with their first use: of thousands of open cells, most need none. */
  #statements: Map<ControlSql, Statement> | undefined
  #depth = 0
  #lost = false
  #schemaVersion: Statement | undefined
  /** The answer of {@link canShare}, and the schema that it holds for. */
  #shared: { version: unknown; allowed: boolean } | undefined

  constructor(connection: Connection, events: TransactionEvents) {
    this.#connection = connection
    this.#events = events
  }

  /** How many transactions the caller is in, one inside the other. */
  get depth(): number {
    return this.#depth
  }

  get inTransaction(): boolean {
    return this.#connection.inTransaction
  }

  /**
   * Whether several pieces of work may share a transaction unnoticed. Not where foreign keys are checked at COMMIT only:
   * there a neighbour's rows would mend, or break, what a piece of work is to be told by itself (invariant 8).
   */
  canShare(): boolean {
    this.#schemaVersion ??= this.#connection.prepare('PRAGMA main.schema_version').pluck() as Statement
    const version = this.#schemaVersion.get()
    if (this.#shared?.version !== version) {
      const found = this.#connection.prepare(DEFERRED_KEYS).pluck().get()
      this.#shared = { version, allowed: found === undefined }
    }
    return this.#shared?.allowed ?? false
  }

  /** Runs `work` in a transaction, or in a savepoint of the one that is open. Throws what it throws, undone. */
  run<T>(work: () => T): T {
    if (this.#depth > 0) return this.savepoint(work)
    this.begin()
    this.#depth = 1
    let value: T
    try {
      value = refusePromise(work())
      if (!this.inTransaction) throw transactionEnded()
      this.#commit()
    } catch (error) {
      this.rollback()
      throw error
    } finally {
      this.#leave()
    }
    this.#events.committed()
    return value
  }

  /** Runs what only reads in one transaction, so that all of it costs one lock; inside another, just there. */
  read<T>(work: () => T): T {
    if (this.#depth > 0) return work()
    this.#events.assertSound()
    this.#exec('BEGIN')
    this.#depth = 1
    try {
      const value = work()
      if (this.inTransaction) this.#exec('COMMIT')
      return value
    } finally {
      if (this.inTransaction) this.#exec('ROLLBACK')
      this.#leave()
    }
  }

  /** Runs `work` in a savepoint of the open transaction. */
  savepoint<T>(work: () => T): T {
    this.#exec('SAVEPOINT nested')
    this.#depth++
    try {
      const value = refusePromise(work())
      if (!this.inTransaction) throw transactionEnded()
      this.#exec('RELEASE nested')
      return value
    } catch (error) {
      this.#undoSavepoint()
      throw error
    } finally {
      this.#leave()
    }
  }

  /**
   * Runs `work` in the open transaction with no savepoint of its own, for what leaves nothing behind when it fails: a single
   * statement, which SQLite undoes by itself. Two statements less.
   */
  unguarded<T>(work: () => T): T {
    this.#depth++
    try {
      const value = work()
      if (!this.inTransaction) throw transactionEnded()
      return value
    } finally {
      if (!this.inTransaction) this.#setLost(true)
      this.#leave()
    }
  }

  /** For a group, which keeps its own order of events: {@link commit} or {@link rollback} ends it. */
  begin(): void {
    this.#events.assertSound()
    this.#events.begin()
    this.#exec('BEGIN IMMEDIATE')
  }

  commit(): void {
    this.#commit()
    this.#events.committed()
  }

  /** Leaves no transaction open, whatever state it was in. */
  rollback(): void {
    if (this.inTransaction) this.#exec('ROLLBACK')
    this.#events.rolledBack()
  }

  /** After every statement that is not the engine's own: the connection is as it was (invariant 6). */
  checkAfterStatement(): void {
    const inTransaction = this.inTransaction
    if (inTransaction === this.#depth > 0) return
    if (inTransaction) this.rollback()
    else this.#setLost(true)
  }

  #commit(): void {
    this.#events.assertSound()
    this.#events.commit(() => this.#exec('COMMIT'))
  }

  #undoSavepoint(): void {
    if (this.inTransaction) {
      this.#exec('ROLLBACK TO nested')
      this.#exec('RELEASE nested')
    } else this.#setLost(true)
    this.#events.rolledBack()
  }

  #exec(sql: ControlSql): void {
    this.#statements ??= new Map()
    let statement = this.#statements.get(sql)
    if (statement === undefined) {
      statement = this.#connection.prepare(sql)
      this.#statements.set(sql, statement)
    }
    statement.run()
  }

  #leave(): void {
    this.#depth--
    if (this.#depth === 0) this.#setLost(false)
  }

  #setLost(lost: boolean): void {
    if (lost === this.#lost) return
    this.#lost = lost
    this.#events.lostChanged(lost)
  }
}

export function transactionEnded(): CellError {
  return new CellError(
    'sql_error',
    'A statement ended the whole transaction (OR ROLLBACK, RAISE(ROLLBACK), or a full disk); nothing of it remains.',
  )
}

function refusePromise<T>(value: T): T {
  if (value === null || typeof value !== 'object' || !('then' in value)) return value
  if (typeof value.then !== 'function') return value
  // Nobody else will hear of it if it rejects.
  value.then(undefined, () => {})
  throw new CellError(
    'invalid_request',
    'A transaction ends when its function returns, so the function must not be async.',
  )
}
