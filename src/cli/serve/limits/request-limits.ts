import { DEFAULT_LIMITS, type Limits, type ResultLimits } from '../../../base/limits.ts'
import {
  DEFAULT_HTTP_LIMITS,
  type HttpLimits,
  REQUEST_DEADLINE_MS_DEFAULT,
} from '../../../http/handler-options.ts'
import { HOUR_MS, type Rows } from './limit-row.ts'

/** Pages of backups are never longer. */
const PAGE_MAX = 1_000
/** The most parameters that this build of SQLite can bind. */
const PARAMS_MAX = 32_766

export const cell: Rows<Limits> = {
  keyBytesMax: {
    flag: 'key-bytes',
    unit: 'bytes',
    default: DEFAULT_LIMITS.keyBytesMax,
    about: 'bytes of a key',
    over: '400 `invalid_key`',
  },
  valueBytesMax: {
    flag: 'value-bytes',
    unit: 'bytes',
    default: DEFAULT_LIMITS.valueBytesMax,
    about: 'bytes of a value',
    over: '413 `value_too_large`',
  },
  ttlSecondsMax: {
    flag: 'ttl',
    unit: 'seconds',
    default: DEFAULT_LIMITS.ttlSecondsMax,
    about: 'seconds of a time to live',
    over: '400 `invalid_ttl`',
  },
  kvKeysMax: {
    flag: 'kv-keys',
    unit: 'count',
    default: DEFAULT_LIMITS.kvKeysMax,
    about: 'keys or entries of one operation',
    over: '400 `invalid_request`',
  },
  pageMax: {
    flag: 'page',
    unit: 'count',
    default: DEFAULT_LIMITS.pageMax,
    about: 'entries on a page of a listing',
    over: '400 `invalid_request`',
    max: PAGE_MAX,
  },
  sqlBytesMax: {
    flag: 'sql-bytes',
    unit: 'bytes',
    default: DEFAULT_LIMITS.sqlBytesMax,
    about: 'bytes of a statement',
    over: '413 `sql_too_long`',
  },
  paramsMax: {
    flag: 'params',
    unit: 'count',
    default: DEFAULT_LIMITS.paramsMax,
    about: 'parameters of a statement',
    over: '400 `invalid_parameter`',
    max: PARAMS_MAX,
  },
  batchOperationsMax: {
    flag: 'batch-operations',
    unit: 'count',
    default: DEFAULT_LIMITS.batchOperationsMax,
    about: 'operations of a batch',
    over: '400 `invalid_request`',
  },
  cellBytesMax: {
    flag: 'cell-bytes',
    unit: 'bytes',
    default: DEFAULT_LIMITS.cellBytesMax,
    about: "bytes of a cell's database file",
    over: '507 `cell_full`; deletions may take a sixteenth more',
    min: 65_536,
  },
  schemaBytesMax: {
    flag: 'schema-bytes',
    unit: 'bytes',
    default: DEFAULT_LIMITS.schemaBytesMax,
    about: "bytes of SQL text in a cell's schema",
    over: '507 `cell_full`',
  },
  walBytesMax: {
    flag: 'wal-bytes',
    unit: 'bytes',
    default: DEFAULT_LIMITS.walBytesMax,
    about:
      "bytes that a statement adds to a cell's log; and of the log while a snapshot or another program holds it",
    over: '400 `transaction_too_large`; the snapshot starts again; 503 `busy` while another program reads',
  },
}

export const result: Rows<ResultLimits> = {
  rowsMax: {
    flag: 'result-rows',
    unit: 'count',
    default: DEFAULT_HTTP_LIMITS.result.rowsMax,
    about: 'rows of an answer',
    over: '400 `result_too_large`',
  },
  bytesMax: {
    flag: 'result-bytes',
    unit: 'bytes',
    default: DEFAULT_HTTP_LIMITS.result.bytesMax,
    about: 'bytes of the values of an answer',
    over: '400 `result_too_large`; a page with values ends early',
  },
}

export const http: Rows<Omit<HttpLimits, 'result' | 'memory' | 'streams'> & { requestDeadlineMs: number }> = {
  bodyBytesMax: {
    flag: 'body-bytes',
    unit: 'bytes',
    default: DEFAULT_HTTP_LIMITS.bodyBytesMax,
    about: 'bytes of a request body',
    over: '413 `body_too_large`',
  },
  importBytesMax: {
    flag: 'import-bytes',
    unit: 'bytes',
    default: DEFAULT_HTTP_LIMITS.importBytesMax,
    about: 'bytes of an imported database',
    over: '413 `body_too_large`',
  },
  exportBytesPerSecond: {
    flag: 'export-rate',
    unit: 'bytes',
    default: DEFAULT_HTTP_LIMITS.exportBytesPerSecond,
    about: 'slowest rate at which a client takes an export, in bytes a second; it has a minute more',
    over: 'closed',
  },
  bodyValuesMax: {
    flag: 'body-values',
    unit: 'count',
    default: DEFAULT_HTTP_LIMITS.bodyValuesMax,
    about: 'values and names in a request body, except for SQL',
    over: '400 `invalid_request`',
  },
  statementMsMax: {
    flag: 'statement-timeout',
    unit: 'duration',
    default: DEFAULT_HTTP_LIMITS.statementMsMax,
    about: 'time of a statement, and the largest `timeout_ms`',
    over: '408 `statement_timeout`',
    max: 24 * HOUR_MS,
  },
  pageDefault: {
    flag: 'page-default',
    unit: 'count',
    default: DEFAULT_HTTP_LIMITS.pageDefault,
    about: 'entries on a page if the request names no `limit`',
    over: 'a next page',
  },
  requestDeadlineMs: {
    flag: 'wait',
    unit: 'duration',
    default: REQUEST_DEADLINE_MS_DEFAULT,
    about: "time that a request waits for its turn, or for its cell's restore",
    over: '503 `busy`, 503 `cell_restoring`',
    max: HOUR_MS,
  },
}
