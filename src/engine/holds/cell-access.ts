import type { CellError } from '../../errors.ts'
import type { OpenSavepoint } from '../commits/transactions.ts'
import type { CopyOptions } from '../files/database-copy.ts'
import type { Growth } from '../files/delete-reserve.ts'
import type { KeptReads } from '../kept-reads.ts'
import type { SqlText } from '../sql-policy/sql-statement.ts'
import type { Statement } from '../sqlite.ts'
import type { SqlParams, SqlResult } from '../statements/sql-values.ts'
import type { SqlOptions, StatementRunner } from '../statements/statement-runner.ts'
import type { CommitRecorder } from '../watch/commit-recorder.ts'
import type { Hold, HoldBounds } from './hold.ts'

/**
 * An open cell, as one of its users has it: `CellDatabase`, or beside a hold `CommittedReader`; the hold itself has `HeldAccess`.
 * Members mean what they do in `CellDatabase`.
 */
export interface CellAccess {
  readonly open: boolean
  readonly usable: boolean
  readonly inTransaction: boolean
  readonly quarantined: CellError | undefined
  readonly recorder: CommitRecorder | undefined
  readonly reads: KeptReads
  assertUsable(): void
  touch(): void
  prepare(sql: string): Statement
  exec(sql: string): void
  failure(error: unknown): CellError
  sql<Row>(sql: SqlText, params?: SqlParams, options?: SqlOptions): SqlResult<Row>
  statement<T>(use: (runner: StatementRunner) => T): T
  read<T>(work: () => T): T
  transaction<T>(work: () => T): T
  openSavepoint(): OpenSavepoint
  commit<T>(work: () => T): Promise<T>
  write<T>(run: () => T, weight?: number): T
  writeDelete<T>(run: () => T, weight?: number): T
  limitGrowth(growth: Growth): void
  enforceForeignKeys(isOn: boolean): void
  copyTo(target: string, options?: CopyOptions): Promise<void>
  beginHold(bounds: HoldBounds): { hold: Hold; access: OpenCell }
}

/** What a handle of a cell has: the cell, or the cell inside of a hold. */
export interface OpenCell extends CellAccess {
  /** The hold beside which others have {@link access}. */
  readonly held: Hold | undefined
  readonly access: CellAccess
  /** Undefined inside of a hold. */
  readonly holds: { readonly untilNext: Promise<void> | undefined } | undefined
}
