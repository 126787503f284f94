import { FLAG, maybe, type Shape, SIGNAL } from '../../base/options/option-shapes.ts'
import type { Hold, HoldBounds } from '../../engine/holds/hold.ts'

/** How long {@link Cell.hold} may take. */
export interface HoldOptions {
  /** Milliseconds from its beginning, 1 to 600,000; 5,000 by default. */
  timeoutMs?: number | undefined
  /** True: it reads everything as it was at its beginning, and changes are refused (`forbidden`). Nobody waits for it. */
  readOnly?: boolean
  /** Rolls it back. */
  signal?: AbortSignal | undefined
}

/** How long a hold may take that its caller ends. */
export interface BeginHoldOptions extends Pick<HoldBounds, 'idleMs' | 'readOnly'> {
  timeoutMs?: number | undefined
}

/** The named savepoints of a hold. */
export interface Savepoints {
  /** Sets a savepoint; one inside the other, also of the same name. */
  savepoint(name: string): void
  /** Forgets a savepoint: what came after it stays. @throws `sql_error` if there is none of this name */
  releaseSavepoint(name: string): void
  /** Undoes what came after a savepoint, which stays. @throws `sql_error` if there is none of this name */
  rollbackTo(name: string): void
}

export const HOLD_MS_DEFAULT = 5_000
const MS_MAX = 600_000

export const HOLD_OPTIONS: Shape<HoldOptions> = {
  timeoutMs: maybe({
    what: `1 to ${MS_MAX} milliseconds`,
    fits: (value) => typeof value === 'number' && value >= 1 && value <= MS_MAX,
  }),
  readOnly: FLAG,
  signal: maybe(SIGNAL),
}

/** @param cell that uses the hold */
export function withSavepoints<T extends object>(cell: T, hold: Hold): T & Savepoints {
  return Object.assign(cell, {
    savepoint: (name: string) => hold.savepoint(name),
    releaseSavepoint: (name: string) => hold.releaseSavepoint(name),
    rollbackTo: (name: string) => hold.rollbackTo(name),
  })
}
