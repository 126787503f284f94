import type { Log, LogInFront } from '../base/log.ts'
import type { RecentFailures } from '../base/recent-failures.ts'

/** A store's log: it says whose the cell of a line is, and keeps the newest failures. */
export class StoreLog implements LogInFront {
  readonly behind: Log
  readonly #failures: RecentFailures
  readonly #accountOf: (cellId: string) => string | null | undefined

  /** @param accountOf the account of a cell; never throws */
  constructor(
    behind: Log,
    failures: RecentFailures,
    accountOf: (cellId: string) => string | null | undefined,
  ) {
    this.behind = behind
    this.#failures = failures
    this.#accountOf = accountOf
  }

  info(fields: object, message: string): void {
    this.behind.info(this.#withAccount(fields), message)
  }

  warn(fields: object, message: string): void {
    const known = this.#withAccount(fields)
    this.#failures.note('warn', known, message)
    this.behind.warn(known, message)
  }

  error(fields: object, message: string): void {
    const known = this.#withAccount(fields)
    this.#failures.note('error', known, message)
    this.behind.error(known, message)
  }

  #withAccount(fields: object): object {
    const { cellId, accountId } = fields as { cellId?: unknown; accountId?: unknown }
    if (typeof cellId !== 'string' || accountId !== undefined) return fields
    const known = this.#accountOf(cellId)
    return known == null ? fields : { accountId: known, ...fields }
  }
}
