import { inspect } from 'node:util'
import type { ResultLimits } from '../base/limits.ts'
import type { Log } from '../base/log.ts'
import type { SqlPolicy } from '../engine/cell-settings.ts'
import type { CellService } from '../service/cell-service.ts'
import type { RateLimit } from './rate-limiter.ts'

/** Told `request_id`, `method`, `route` and `err`; never a path, which could hold a tenant's key. A pino logger is one. */
export type HttpLogger = Pick<Log, 'error'>

export interface HttpLimits {
  /** A request's body, in bytes. */
  bodyBytesMax: number
  /** Rows and bytes of one SQL answer. */
  result: ResultLimits
  /** How long a request's statements may run, in milliseconds: `timeout_ms` is at most this. See `service` too. */
  statementMsMax: number
  /** Entries on a page of a listing, where the request names no limit. */
  pageDefault: number
}

export const DEFAULT_HTTP_LIMITS: HttpLimits = {
  bodyBytesMax: 2_097_152,
  result: { rowsMax: 10_000, bytesMax: 10_485_760 },
  statementMsMax: 5_000,
  pageDefault: 100,
}

export interface HandlerOptions {
  /**
   * What stands before `/v1` in the path that the handler gets: `/api` for a handler at `https://host/api/v1/…`. Leave
   * it out where the framework takes the prefix off itself, as Express's `app.use('/api', …)` and Hono's `mount` do.
   */
  basePath?: string | undefined
  limits?: Partial<HttpLimits> | undefined
  /** Told of our own bugs, under the request's id; the store's by default, and where that is silent a Node.js warning. */
  logger?: HttpLogger | undefined
  /** Where cells are run; in this process by default. */
  service?: CellService | undefined
  /** What SQL may do. Default `tenant`; `trusted` only where every key holder may do anything to a cell. */
  sqlPolicy?: SqlPolicy | undefined
  /** How long a request may wait for its cell to be restored, in milliseconds; 20,000 by default. */
  requestDeadlineMs?: number | undefined
  /** What each account may ask; without bounds by default. Over them requests are answered 429 `rate_limited`. */
  rate?: RateLimit | undefined
  /** Once aborted, new requests are answered 503 `shutting_down`. */
  shutdown?: AbortSignal | undefined
}

export const REQUEST_DEADLINE_MS_DEFAULT = 20_000

/** Whoever embeds the handler without a logger still learns of our bugs. */
export const warningLogger: HttpLogger = {
  error(fields, message) {
    const { err, ...rest } = fields as { err?: unknown }
    process.emitWarning(`${message} ${JSON.stringify(rest)}`, {
      type: 'CellstoreWarning',
      code: 'CELLSTORE_INTERNAL',
      detail: inspect(err),
    })
  },
}
