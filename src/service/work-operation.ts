import type { Clock } from '../base/clock.ts'
import type { SqlPolicy } from '../engine/cell-settings.ts'
import type { Cell } from '../store/open/cell.ts'

/** What is done about statements that take long. */
export interface SlowStatements {
  /** Milliseconds from which on a statement is slow. */
  fromMs: number
  /** Told of each slow one, also if it failed. */
  tell(sql: string, ms: number): void
}

/** What work needs beside the cell. */
export interface WorkContext {
  sqlPolicy: SqlPolicy
  clock: Clock
  slow?: SlowStatements | undefined
  /** What could change the cell is refused. */
  readonly readOnly?: true | undefined
}

/** What whoever has the cell has made of a request that is no one operation. It runs as a whole, in one commit if it may change anything. */
export interface WorkOperation {
  op: 'work'
  mayChange: boolean
  run(cell: Cell, context: WorkContext): unknown
}
