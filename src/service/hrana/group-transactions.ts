import type { OpenSavepoint } from '../../engine/commits/transactions.ts'
import { CellError } from '../../errors.ts'
import type { Cell } from '../../store/open/cell.ts'
import type { TransactionControl } from '../work-operation.ts'

/**
 * The transactions of a pipeline that leaves none open, as savepoints of the one transaction in which it runs: all that it commits
 * is committed together, with its answer, or none of it.
 */
export class GroupTransactions implements TransactionControl {
  readonly #open: { name: string | undefined; savepoint: OpenSavepoint }[] = []
  readonly #openSavepoint: () => OpenSavepoint

  constructor(openSavepoint: () => OpenSavepoint) {
    this.#openSavepoint = openSavepoint
  }

  static of(cell: Cell): GroupTransactions {
    return new GroupTransactions(() => cell.openSavepoint())
  }

  /** Of a pipeline that changes nothing. */
  static none(): GroupTransactions {
    return new GroupTransactions(() => NOTHING)
  }

  get inTransaction(): boolean {
    return this.#open.length > 0
  }

  begin(): void {
    this.#begin(undefined)
  }

  commit(): void {
    while (this.inTransaction) this.#open.pop()?.savepoint.release()
  }

  rollback(): void {
    this.#undoFrom(0)
  }

  savepoint(name: string): void {
    this.#begin(name)
  }

  releaseSavepoint(name: string): void {
    const at = this.#find(name)
    while (this.#open.length > at) this.#open.pop()?.savepoint.release()
  }

  rollbackTo(name: string): void {
    this.#undoFrom(this.#find(name))
    this.#begin(name)
  }

  #begin(name: string | undefined): void {
    this.#open.push({ name, savepoint: this.#openSavepoint() })
  }

  #undoFrom(at: number): void {
    while (this.#open.length > at) this.#open.pop()?.savepoint.undo()
  }

  #find(name: string): number {
    const at = this.#open.findLastIndex((each) => each.name === name)
    if (at >= 0) return at
    throw new CellError('sql_error', `no such savepoint: ${name}`, { sqliteCode: 'SQLITE_ERROR' })
  }
}

const NOTHING: OpenSavepoint = { release() {}, undo() {} }
