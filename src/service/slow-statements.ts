import type { Log } from '../base/log.ts'

/** Milliseconds from which on a statement is logged as slow. */
export const SLOW_MS_DEFAULT = 500

export interface SlowStatement {
  cellId: string
  requestId: string | undefined
  /** Its shape: see `sqlShape`. */
  statement: string
  ms: number
}

/** It is no failure: tenants could push all others out of the list of the newest ones. */
export function logSlowStatement(log: Log, { ms, ...fields }: SlowStatement): void {
  log.info({ ...fields, ms: Math.round(ms) }, 'a statement was slow')
}
