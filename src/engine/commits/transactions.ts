import { CellError } from '../../errors.ts'
import { type CellState, transactionEnded } from '../cell-state.ts'
import type { KeptReads } from '../kept-reads.ts'
import type { Connection, Statement } from '../sqlite.ts'
import type { Touched } from '../watch/commit-recorder.ts'
import { refuseLate } from './transaction-work.ts'

export interface TransactionEvents {
  /** Before each BEGIN. Throws if nothing may be changed now. */
  begin(): void
  /** Runs each COMMIT. */
  commit(run: () => void): void
  /** After each COMMIT that succeeded. Must not throw. */
  committed(): void
  /** At the beginning of a savepoint. */
  mark(): Touched | undefined
  /** After anything was rolled back, a savepoint or all. @param mark of the savepoint */
  rolledBack(mark?: Touched): void
}

const DEFERRED_KEYS =
  "SELECT 1 FROM main.sqlite_schema WHERE type = 'table' AND sql LIKE '%deferred%' LIMIT 1"

/** A savepoint that the owner of a held transaction has named. */
interface NamedSavepoint {
  name: string
  mark: Touched | undefined
}

type ControlSql =
  | 'BEGIN'
  | 'BEGIN IMMEDIATE'
  | 'COMMIT'
  | 'ROLLBACK'
  | 'SAVEPOINT nested'
  | 'RELEASE nested'
  | 'ROLLBACK TO nested'

/** A savepoint that whoever has opened it ends: the innermost first. */
export interface OpenSavepoint {
  release(): void
  /** Undoes what came after it, and ends it. */
  undo(): void
}

/**
 * Where every transaction of one connection begins and ends. A transaction that a statement has ended (`OR ROLLBACK`,
 * `RAISE(ROLLBACK)`, a full disk) is *lost*: SQLite would commit each later statement on its own, so there must be none
 * until the caller has left the transaction (invariant 6).
 */
export class Transactions {
  readonly #connection: Connection
  readonly #state: CellState
  readonly #reads: KeptReads
  readonly #events: TransactionEvents
  /** Prepared with their first use: most of thousands of open cells need none. */
  #statements: Map<ControlSql, Statement> | undefined
  #depth = 0
  /** Of a held transaction, one inside the other. */
  readonly #named: NamedSavepoint[] = []
  #schemaVersion: Statement | undefined
  /** The open transaction of a group has had foreign keys that are judged only at its COMMIT. */
  #hasDeferred = false
  /** The answer of {@link canShare}, and the schema that it holds for. */
  #shared: { version: unknown; allowed: boolean } | undefined

  constructor(connection: Connection, state: CellState, reads: KeptReads, events: TransactionEvents) {
    this.#connection = connection
    this.#state = state
    this.#reads = reads
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
   * Whether several pieces of work may share a transaction unnoticed. Not if foreign keys are checked only at COMMIT: then
   * a neighbour's rows would repair, or break, the keys of this piece of work (invariant 8).
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

  /** Foreign keys may be judged only at the COMMIT from here on: see {@link couldShare}. */
  defersKeys(): void {
    this.#hasDeferred = true
  }

  /**
   * {@link canShare} after the work, which can have deferred the check itself. Once is enough: a neighbour can have repaired the keys
   * and taken the deferral back, by a DROP of the table, for example.
   */
  couldShare(): boolean {
    return !this.#hasDeferred
  }

  /**
   * Runs `work` in a transaction: all of it is committed when this returns, or none when it throws. Inside another
   * transaction it is a savepoint.
   *
   * @throws what `work` throws; `invalid_request` if it returns a promise or an iterator, since a transaction can't outlive the call
   */
  run<T>(work: () => T): T {
    if (this.#depth > 0) return this.savepoint(work)
    this.enter()
    let value: T
    try {
      value = refuseLate(work())
    } catch (error) {
      this.rollbackAndLeave()
      throw error
    }
    this.commitAndLeave()
    return value
  }

  /** Begins a transaction, of which all is a part until {@link commitAndLeave} or {@link rollbackAndLeave} ends it. */
  enter(): void {
    this.begin()
    this.#depth = 1
  }

  /** As {@link enter}, for reads of one state. */
  enterSnapshot(): void {
    this.#exec('BEGIN')
    this.#depth = 1
    // The state is that of the first read.
    this.#connection.prepare('SELECT 1 FROM main.sqlite_schema').get()
  }

  /** @throws what keeps it from being committed; then it is rolled back */
  commitAndLeave(): void {
    try {
      if (this.#state.isTransactionLost) throw transactionEnded()
      this.#commit()
    } catch (error) {
      this.rollback()
      throw error
    } finally {
      this.#leave()
    }
    this.#events.committed()
  }

  rollbackAndLeave(): void {
    try {
      this.rollback()
    } finally {
      this.#leave()
    }
  }

  /** Sets a named savepoint in a transaction that was {@link enter}ed. */
  setSavepoint(name: string): void {
    this.#control(`SAVEPOINT ${quoted(name)}`)
    this.#named.push({ name: name.toLowerCase(), mark: this.#events.mark() })
  }

  /** @throws SQLite's error if there is no such savepoint */
  releaseSavepoint(name: string): void {
    this.#control(`RELEASE ${quoted(name)}`)
    this.#named.length = this.#place(name)
  }

  /** Undoes what came after the savepoint, which stays. @throws SQLite's error if there is no such savepoint */
  rollbackTo(name: string): void {
    this.#control(`ROLLBACK TO ${quoted(name)}`)
    const place = this.#place(name)
    this.#named.length = place + 1
    this.#events.rolledBack(this.#named[place]?.mark)
  }

  /** Names are compared as SQLite does. */
  #place(name: string): number {
    return this.#named.findLastIndex((each) => each.name === name.toLowerCase())
  }

  #control(sql: string): void {
    if (this.#depth > 1)
      throw new CellError('invalid_request', 'A named savepoint cannot be used inside of tx.transaction().')
    this.#connection.exec(sql)
  }

  /**
   * Runs reads in one transaction, so that all of them cost one lock; inside another transaction, as part of that. It must change
   * nothing: no `begin` event comes before.
   */
  read<T>(work: () => T): T {
    if (this.#depth > 0) return work()
    this.#state.assertNotQuarantined()
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
    const savepoint = this.openSavepoint()
    let value: T
    try {
      value = refuseLate(work())
    } catch (error) {
      savepoint.undo()
      throw error
    }
    savepoint.release()
    return value
  }

  /** {@link savepoint} for work that does not end when a function returns. */
  openSavepoint(): OpenSavepoint {
    this.#exec('SAVEPOINT nested')
    this.#depth++
    const mark = this.#events.mark()
    const undo = () => {
      try {
        this.#undoSavepoint(mark)
      } finally {
        this.#leave()
      }
    }
    const release = () => {
      try {
        if (this.#state.isTransactionLost) throw transactionEnded()
        this.#exec('RELEASE nested')
      } catch (error) {
        undo()
        throw error
      }
      this.#leave()
    }
    return { release, undo }
  }

  /**
   * Runs `work` in the open transaction without a savepoint, which saves two statements. If it fails, what it has changed stays:
   * the caller rolls all back, or the work is one that leaves nothing behind, such as a single statement, which SQLite undoes.
   */
  unguarded<T>(work: { run(): T }): T {
    this.#depth++
    try {
      const value = work.run()
      // Noted after each statement, and cheaper to ask than SQLite.
      if (this.#state.isTransactionLost) throw transactionEnded()
      return value
    } catch (error) {
      if (!this.inTransaction) this.#state.setTransactionLost(true)
      throw error
    } finally {
      this.#leave()
    }
  }

  /** For a group, which orders its own events: {@link commit} or {@link rollback} ends it. */
  begin(): void {
    this.#state.assertNotQuarantined()
    this.#events.begin()
    this.#hasDeferred = false
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

  /** After every statement of a caller: leaves the connection as it was before (invariant 6). */
  checkAfterStatement(): void {
    const inTransaction = this.inTransaction
    if (inTransaction === this.#depth > 0) return
    if (inTransaction) this.rollback()
    else this.#state.setTransactionLost(true)
  }

  #commit(): void {
    this.#state.assertNotQuarantined()
    this.#events.commit(() => this.#exec('COMMIT'))
  }

  #undoSavepoint(mark: Touched | undefined): void {
    if (this.inTransaction) {
      this.#exec('ROLLBACK TO nested')
      this.#exec('RELEASE nested')
    } else this.#state.setTransactionLost(true)
    this.#events.rolledBack(mark)
  }

  #exec(sql: ControlSql): void {
    this.#reads.end()
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
    if (this.#depth > 0) return
    this.#state.setTransactionLost(false)
    this.#named.length = 0
  }
}

/** @throws `invalid_request` for what can be no name */
function quoted(name: string): string {
  if (typeof name === 'string' && name.isWellFormed() && !name.includes('\0'))
    return `"${name.replaceAll('"', '""')}"`
  throw new CellError('invalid_request', 'The name of a savepoint is text without NUL.', { field: 'name' })
}
