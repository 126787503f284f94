import { inspect } from 'node:util'
import type { Log } from '../base/log.ts'
import type { ResultLimits } from '../base/options/limits.ts'
import {
  COUNT,
  checkOptions,
  group,
  having,
  type Kind,
  MILLISECONDS,
  maybe,
  orNull,
  type Shape,
  SIGNAL,
  type Some,
  some,
} from '../base/options/option-shapes.ts'
import { SQL_POLICY, type SqlPolicy } from '../engine/cell-settings.ts'
import { RESULT_LIMITS } from '../engine/statements/sql-options.ts'
import type { CellService } from '../service/cell-service.ts'
import { ORIGIN } from './core/cors.ts'
import { BASE_PATH } from './core/request-target.ts'
import { DEFAULT_MEMORY_LIMITS, MEMORY_LIMITS, type MemoryLimits } from './quotas/memory-budgets.ts'
import { RATE, type RateLimit } from './quotas/rate-limiter.ts'
import { DEFAULT_STREAM_LIMITS, STREAM_LIMITS, type StreamLimits } from './quotas/stream-limits.ts'

/** Gets `requestId`, `method`, `route` and `err`; never a path, which could hold a tenant's key. A pino logger fits. */
export type HttpLogger = Pick<Log, 'error'>

/** Gets a line for each request; never a path, which could hold a tenant's key. A pino logger fits. */
export interface AccessLogger {
  /**
   * Takes the line of one request.
   *
   * @param fields `requestId`, `accountId`, `cellId`, `method`, `route`, `status`, `code` of a refusal, `ms`
   */
  debug(fields: object, message: string): void
}

/** Bounds on one request and its answer. */
export interface HttpLimits {
  /** A request's body, in bytes. */
  bodyBytesMax: number
  /** A database that is imported, in bytes. No cell is larger than the store's `limits.cellBytesMax` in any case. */
  importBytesMax: number
  /** Bytes of an export that its client takes a second, on average and after its first minute. A slower one gets no more. */
  exportBytesPerSecond: number
  /** Values and names in a request's body, except for SQL and KV: whoever has the cell reads those. */
  bodyValuesMax: number
  /** Rows and bytes of one SQL answer. */
  result: ResultLimits
  /** The largest `timeout_ms` of a request, in milliseconds. Only workers can end a statement: see {@link HandlerOptions.service}. */
  statementMsMax: number
  /** Entries on a page of a listing if the request names no limit. */
  pageDefault: number
  /** Memory for all requests together, and for those of one account. */
  memory: MemoryLimits
  /** Streams of changes that are open at the same time. */
  streams: StreamLimits
}

export const DEFAULT_HTTP_LIMITS: HttpLimits = {
  bodyBytesMax: 2_097_152,
  importBytesMax: 1_073_741_824,
  exportBytesPerSecond: 65_536,
  bodyValuesMax: 10_000,
  result: { rowsMax: 10_000, bytesMax: 10_485_760 },
  statementMsMax: 5_000,
  pageDefault: 100,
  memory: DEFAULT_MEMORY_LIMITS,
  streams: DEFAULT_STREAM_LIMITS,
}

/** Options of `createHandler` and `createListener`. */
export interface HandlerOptions {
  /**
   * The part of the path before `/v1`: `/api` for a handler at `https://host/api/v1/…`. Leave it out if the framework
   * removes the prefix itself, as Express's `app.use('/api', …)` and Hono's `mount` do.
   */
  basePath?: string | undefined
  /** Default: bodies of 2 MiB, results of 10,000 rows and 10 MiB, `timeout_ms` up to 5,000, pages of 100 entries. */
  limits?: Some<HttpLimits> | undefined
  /** Gets internal errors, with the request's id. Default: the store's log; if that is silent, a Node.js warning. */
  logger?: HttpLogger | undefined
  /** Gets a line for each request; nothing by default. */
  accessLogger?: AccessLogger | undefined
  /** Milliseconds from which on a statement is written to the store's log, without its values; 500 by default. Null: never. */
  slowMs?: number | null | undefined
  /** Runs the operations on cells. Default: this process runs them, and cannot end a statement that takes long. */
  service?: CellService | undefined
  /** What SQL may do. Default `tenant`; `trusted` only where every key holder may do anything to a cell. */
  sqlPolicy?: SqlPolicy | undefined
  /** How long a request waits for its cell to be restored, in milliseconds; 20,000 by default. Then it gets 503 `cell_restoring`. */
  requestDeadlineMs?: number | undefined
  /** How many requests each account may make; no bound by default. Beyond it, requests get 429 `rate_limited`. */
  rate?: RateLimit | undefined
  /**
   * Origins whose pages may use the interface from a browser, such as `https://studio.example`, or `*` for any. None by default. A page
   * needs a key as everybody does.
   */
  corsOrigins?: readonly string[] | undefined
  /** Once this is aborted, new requests get 503 `shutting_down`. */
  shutdown?: AbortSignal | undefined
}

export const REQUEST_DEADLINE_MS_DEFAULT = 20_000

const ORIGINS: Kind<readonly string[]> = {
  what: 'a list of origins, such as https://studio.example, or "*"',
  fits: (value) => Array.isArray(value) && value.every((each) => ORIGIN.test(String(each))),
}

const LIMITS: Shape<HttpLimits> = {
  bodyBytesMax: COUNT,
  importBytesMax: COUNT,
  exportBytesPerSecond: COUNT,
  bodyValuesMax: COUNT,
  result: group(RESULT_LIMITS),
  statementMsMax: COUNT,
  pageDefault: COUNT,
  memory: group(MEMORY_LIMITS),
  streams: group(STREAM_LIMITS),
}
const HANDLER: Shape<HandlerOptions> = {
  basePath: maybe(BASE_PATH),
  limits: maybe(some(LIMITS)),
  logger: maybe(having('error')),
  accessLogger: maybe(having('debug')),
  slowMs: maybe(orNull(MILLISECONDS)),
  service: maybe(having('execute')),
  sqlPolicy: maybe(SQL_POLICY),
  requestDeadlineMs: maybe(MILLISECONDS),
  rate: maybe(group(RATE)),
  corsOrigins: maybe(ORIGINS),
  shutdown: maybe(SIGNAL),
}

/** @throws `invalid_setting` */
export function checkHandlerOptions(options: HandlerOptions): void {
  checkOptions(options, HANDLER, { code: 'invalid_setting' })
}

/** Tells a program that passes no logger of our bugs. */
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
