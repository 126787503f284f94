import { nameCost, textCost, valueCost } from '../base/fairness/answer-cost.ts'
import type { ResultLimits } from '../base/options/limits.ts'
import { encodeCursor } from '../base/paging.ts'
import { CellError } from '../errors.ts'
import type { KvEntry, KvListOptions, KvPage } from '../kv/entry.ts'
import type { Kv } from '../kv/kv.ts'
import { CellAnswer, type OperationResults } from './operations.ts'

/**
 * Bounds on answers that are made of many parts, each within its own limit: a thousand values of 1 MiB would make an
 * answer of 1 GiB, held in memory more than once. The engine bounds each single result.
 */

/** Entries that are read before their size is checked again. */
const LIST_STEP = 16

/** A page whose values hold at most `bytesMax` bytes, but at least one entry. So it may hold fewer than its limit. */
export function listWithin(kv: Kv, options: KvListOptions, bytesMax: number): KvPage {
  const { values = true, limit } = options
  if (!values || limit === undefined || limit <= LIST_STEP) return kv.list(options)
  const entries: KvPage['entries'] = []
  let { cursor } = options
  let bytes = 0
  while (entries.length < limit) {
    const page = kv.list({ ...options, cursor, limit: Math.min(LIST_STEP, limit - entries.length) })
    for (const entry of page.entries) {
      bytes += textCost(entry.value ?? '')
      const last = entries.at(-1)
      if (bytes > bytesMax && last !== undefined) return { entries, nextCursor: encodeCursor(last.key) }
      entries.push(entry)
    }
    if (page.nextCursor === null) return { entries, nextCursor: null }
    cursor = page.nextCursor
  }
  return { entries, nextCursor: cursor ?? null }
}

/** @throws `result_too_large`; and as `kv.entry`, before anything is read */
export function mgetWithin(kv: Kv, keys: readonly string[], bytesMax: number): (KvEntry | undefined)[] {
  if (keys.length <= LIST_STEP) return kv.entry(keys)
  // Refuses bad keys and too many of them; it reads little.
  kv.ttl(keys)
  let bytes = 0
  return keys.map((key) => {
    const entry = kv.entry(key)
    bytes += entry === undefined ? 0 : textCost(entry.value)
    if (bytes > bytesMax)
      throw tooLarge(
        `The values together are larger than ${bytesMax} bytes (result.bytesMax). Ask for fewer keys.`,
        bytesMax,
      )
    return entry
  })
}

/** Adds up the results of a batch. */
export class BatchSize {
  readonly #bytesMax: number
  #bytes = 0

  constructor(bytesMax: number) {
    this.#bytesMax = bytesMax
  }

  /** @throws `result_too_large` */
  add(result: unknown): void {
    this.#bytes += resultBytes(result)
    if (this.#bytes <= this.#bytesMax) return
    throw tooLarge(
      `The results of the batch together are larger than ${this.#bytesMax} bytes (result.bytesMax); nothing was changed. Ask for less.`,
      this.#bytesMax,
    )
  }
}

/**
 * The engine measures a result by its values; rows as objects also repeat the names of the columns.
 *
 * @throws `result_too_large`
 */
export function checkNamesFit(
  result: Omit<OperationResults['sql'], 'durationMs'>,
  { bytesMax }: ResultLimits,
): void {
  if (namesSize(result) <= bytesMax) return
  throw tooLarge(
    `With its column names in every row the result is larger than ${bytesMax} bytes (result.bytesMax); nothing was changed. Ask for rows as arrays, or for less.`,
    bytesMax,
  )
}

/** Bytes of the rows or the value in the result of any operation, or of several; of an answer, of its JSON. */
export function resultBytes(result: unknown): number {
  if (result instanceof CellAnswer) return result.json.length
  if (Array.isArray(result)) return result.reduce((sum: number, each) => sum + resultBytes(each), 0)
  if (typeof result !== 'object' || result === null) return 0
  if ('value' in result && typeof result.value === 'string') return textCost(result.value)
  return 'rows' in result && 'columns' in result ? sizeOfResult(result as OperationResults['sql']) : 0
}

function sizeOfResult(result: OperationResults['sql']): number {
  let bytes = namesSize(result)
  for (const row of result.rows) for (const value of Object.values(row)) bytes += valueCost(value)
  return bytes
}

function namesSize({ columns, rows }: Omit<OperationResults['sql'], 'durationMs'>): number {
  if (rows.length === 0 || Array.isArray(rows[0])) return 0
  return columns.reduce((sum, column) => sum + nameCost(column), 0) * rows.length
}

function tooLarge(message: string, limit: number): CellError {
  return new CellError('result_too_large', message, { limit })
}
