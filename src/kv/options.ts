import { checkNames, type Known } from '../base/known-names.ts'
import { CellError } from '../errors.ts'
import type { KvListOptions, KvPutEntry, KvPutOptions, KvTtlOptions } from './entry.ts'

const TTL_NAMES: Known<KvTtlOptions> = { ttlSeconds: true, ttlMs: true }
const PUT_NAMES: Known<KvPutOptions> = { ...TTL_NAMES, keepTtl: true }
const ENTRY_NAMES: Known<KvPutEntry> = { key: true, value: true, ...TTL_NAMES }
const LIST_NAMES: Known<KvListOptions> = {
  prefix: true,
  cursor: true,
  limit: true,
  reverse: true,
  values: true,
}

/** Each throws `invalid_request` for an option that is not known, and for a flag that is neither true nor false. */

export function checkTtlOptions(options: KvTtlOptions): void {
  checkNames(options, TTL_NAMES)
}

export function checkPutOptions(options: KvPutOptions): void {
  checkNames(options, PUT_NAMES)
  checkFlag(options.keepTtl, 'keepTtl')
}

export function checkListOptions(options: KvListOptions): void {
  checkNames(options, LIST_NAMES)
  checkFlag(options.reverse, 'reverse')
  checkFlag(options.values, 'values')
}

/** @param at where the entry stands, with a point: `entries[2].` */
export function checkEntry(entry: KvPutEntry, at: string): void {
  checkNames(entry, ENTRY_NAMES, { at })
}

/** A text such as 'false' would count as true. */
function checkFlag(value: boolean | undefined, field: string): void {
  if (value === undefined || typeof value === 'boolean') return
  throw new CellError('invalid_request', `${field} must be true or false.`, { field })
}
