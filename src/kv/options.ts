import { checkNames, type Known } from '../base/known-names.ts'
import { CellError } from '../errors.ts'
import type {
  KvDeleteOptions,
  KvKeysOptions,
  KvListOptions,
  KvPutEntry,
  KvPutOptions,
  KvTtlOptions,
} from './entry.ts'

const TTL_NAMES: Known<KvTtlOptions> = { ttlSeconds: true, ttlMs: true }
const PUT_NAMES: Known<KvPutOptions> = { ...TTL_NAMES, keepTtl: true, ifVersion: true }
const ENTRY_NAMES: Known<KvPutEntry> = { key: true, value: true, ...PUT_NAMES }
const DELETE_NAMES: Known<KvDeleteOptions> = { ifVersion: true }
const KEYS_NAMES: Known<KvKeysOptions> = { prefix: true, cursor: true, limit: true, reverse: true }
const LIST_NAMES: Known<KvListOptions> = { ...KEYS_NAMES, values: true }

/** Each throws `invalid_request` for an option that is not known, and for a flag that is neither true nor false. */

export function checkTtlOptions(options: KvTtlOptions): void {
  checkNames(options, TTL_NAMES)
}

/** @param at where the options stand, with a point: `entries[2].` */
export function checkPutOptions(options: KvPutOptions, at: string): void {
  checkNames(options, PUT_NAMES, { at })
  checkFlag(options.keepTtl, `${at}keepTtl`)
}

export function checkDeleteOptions(options: KvDeleteOptions): void {
  checkNames(options, DELETE_NAMES)
}

export function checkKeysOptions(options: KvKeysOptions): void {
  checkNames(options, KEYS_NAMES)
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
