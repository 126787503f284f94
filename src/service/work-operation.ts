import type { Clock } from '../base/clock.ts'
import type { SqlPolicy } from '../engine/cell-settings.ts'
import type { Cell } from '../store/open/cell.ts'
import type { CellSession } from './holds/cell-session.ts'

/** What is done about statements that take long. */
export interface SlowStatements {
  /** Milliseconds from which on a statement is slow. */
  fromMs: number
  /** Told of each slow one, also if it failed. */
  tell(sql: string, ms: number): void
}

/** Where transactions and savepoints begin and end. */
export interface TransactionControl {
  readonly inTransaction: boolean
  begin(options?: { readOnly?: boolean }): void
  commit(): void
  rollback(): void
  /** These are only for a transaction that is open. */
  savepoint(name: string): void
  releaseSavepoint(name: string): void
  rollbackTo(name: string): void
}

/** What work needs beside the cell. */
export interface WorkContext {
  sqlPolicy: SqlPolicy
  clock: Clock
  slow?: SlowStatements | undefined
  /** What could change the cell is refused. */
  readonly readOnly?: true | undefined
  /** Undefined: it is part of a commit of others, or changes nothing. */
  readonly session?: CellSession | undefined
}

/** What whoever has the cell has made of a request that is no one operation. It runs as a whole, in one commit if it may change anything. */
export interface WorkOperation {
  op: 'work'
  mayChange: boolean
  /** It may leave a transaction open, or sets what is set outside of one: it runs alone, and begins and commits its own. */
  mayHold: boolean
  /** It may leave a transaction open. */
  mayStay: boolean
  run(cell: Cell, context: WorkContext): unknown
}
