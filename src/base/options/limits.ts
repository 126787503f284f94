import { COUNT, type Shape } from './option-shapes.ts'

/** Bounds on what a cell takes. Each is a setting, and the error that it causes has its value in `details.limit`. */
export interface Limits {
  /** A KV key, in UTF-8 bytes. */
  keyBytesMax: number
  /** A KV value, in UTF-8 bytes. */
  valueBytesMax: number
  /** A time to live, in seconds (default 100 years). */
  ttlSecondsMax: number
  /** Keys or entries in one KV operation. */
  kvKeysMax: number
  /** Entries on a page of a KV or cell listing. */
  pageMax: number
  /** SQL text, in UTF-8 bytes. */
  sqlBytesMax: number
  /** Parameters of a statement (SQLite's own ceiling is 32,766). */
  paramsMax: number
  /** Operations in one batch. */
  batchOperationsMax: number
  /** A cell's database file, in bytes. */
  cellBytesMax: number
  /** The SQL text of a cell's tables, views, indexes and triggers, in bytes. Opened, a cell takes up to 32 times as much memory for it. */
  schemaBytesMax: number
  /** A cell's write-ahead log, in bytes, while another program prevents its checkpoint; and what one statement adds to it with `cellstore serve`. */
  walBytesMax: number
}

/** The limits of a store that sets none of its own. */
export const DEFAULT_LIMITS: Limits = {
  keyBytesMax: 1_024,
  valueBytesMax: 1_048_576,
  ttlSecondsMax: 3_153_600_000,
  kvKeysMax: 1_000,
  pageMax: 1_000,
  sqlBytesMax: 102_400,
  paramsMax: 32_766,
  batchOperationsMax: 1_000,
  cellBytesMax: 1_073_741_824,
  schemaBytesMax: 262_144,
  walBytesMax: 268_435_456,
}

export const LIMITS: Shape<Limits> = {
  keyBytesMax: COUNT,
  valueBytesMax: COUNT,
  ttlSecondsMax: COUNT,
  kvKeysMax: COUNT,
  pageMax: COUNT,
  sqlBytesMax: COUNT,
  paramsMax: COUNT,
  batchOperationsMax: COUNT,
  cellBytesMax: COUNT,
  schemaBytesMax: COUNT,
  walBytesMax: COUNT,
}

/** Bounds on one answer of `sql()`: none in the library, 10,000 rows and 10 MiB over HTTP. */
export interface ResultLimits {
  /** Rows. */
  rowsMax: number
  /** Text and blob bytes plus eight for every other value; what is larger in JSON or memory counts more. */
  bytesMax: number
}
