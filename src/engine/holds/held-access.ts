import { CellError } from '../../errors.ts'
import type { OpenSavepoint } from '../commits/transactions.ts'
import type { Growth } from '../files/delete-reserve.ts'
import type { KeptReads } from '../kept-reads.ts'
import type { SqlText } from '../sql-policy/sql-statement.ts'
import type { Statement } from '../sqlite.ts'
import type { SqlParams, SqlResult } from '../statements/sql-values.ts'
import type { SqlOptions, StatementRunner } from '../statements/statement-runner.ts'
import type { CommitRecorder } from '../watch/commit-recorder.ts'
import type { CellAccess, OpenCell } from './cell-access.ts'
import type { Hold } from './hold.ts'

/** A cell inside of a hold: its own connection, which nobody else uses before the end of the hold. */
export class HeldAccess implements OpenCell {
  /** Its methods tell what has ended it. */
  readonly open = true
  readonly inTransaction = true
  readonly held = undefined
  readonly holds = undefined
  readonly #hold: Hold
  readonly #database: CellAccess

  constructor(hold: Hold, database: CellAccess) {
    this.#hold = hold
    this.#database = database
  }

  get access(): this {
    return this
  }

  get quarantined(): CellError | undefined {
    return this.#database.quarantined
  }

  get usable(): boolean {
    const isOpen = this.#hold.ended === undefined && this.quarantined === undefined
    return this.#hold.isRunning ? isOpen && this.#database.usable : isOpen
  }

  get recorder(): CommitRecorder | undefined {
    return this.#database.recorder
  }

  get reads(): KeptReads {
    return this.#database.reads
  }

  assertUsable(): void {
    this.#hold.run(() => this.#database.assertUsable())
  }

  touch(): void {
    this.#database.touch()
  }

  prepare(sql: string): Statement {
    return this.#hold.run(() => this.#database.prepare(sql))
  }

  exec(sql: string): void {
    this.#hold.run(() => this.#database.exec(sql))
  }

  failure(error: unknown): CellError {
    return this.#hold.ended ?? this.#hold.run(() => this.#database.failure(error))
  }

  sql<Row>(sql: SqlText, params?: SqlParams, options?: SqlOptions): SqlResult<Row> {
    return this.#hold.run(() => this.#database.sql<Row>(sql, params, options))
  }

  statement<T>(use: (runner: StatementRunner) => T): T {
    return this.#hold.run(() => this.#database.statement(use))
  }

  read<T>(work: () => T): T {
    return this.#hold.run(() => this.#database.read(work))
  }

  transaction<T>(work: () => T): T {
    return this.#hold.run(() => this.#database.transaction(work))
  }

  openSavepoint(): OpenSavepoint {
    return this.#hold.run(() => this.#database.openSavepoint())
  }

  write<T>(run: () => T, weight?: number): T {
    return this.#hold.run(() => this.#database.write(run, weight))
  }

  writeDelete<T>(run: () => T, weight?: number): T {
    return this.#hold.run(() => this.#database.writeDelete(run, weight))
  }

  limitGrowth(growth: Growth): void {
    this.#hold.run(() => this.#database.limitGrowth(growth))
  }

  enforceForeignKeys(): never {
    throw notInTransaction()
  }

  commit(): never {
    throw notInTransaction()
  }

  async copyTo(): Promise<never> {
    throw notInTransaction()
  }

  beginHold(): never {
    throw notInTransaction()
  }
}

function notInTransaction(): CellError {
  return new CellError('invalid_request', 'This cannot be part of a transaction. Use the cell, not tx.')
}
