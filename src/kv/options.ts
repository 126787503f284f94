import {
  checkOptions,
  FLAG,
  judgedByReader,
  maybe,
  required,
  type Shape,
} from '../base/options/option-shapes.ts'
import { PAGING } from '../base/paging.ts'
import type {
  KvDeleteOptions,
  KvKeysOptions,
  KvListOptions,
  KvPutEntry,
  KvPutOptions,
  KvTtlOptions,
} from './entry.ts'

const TTL: Shape<KvTtlOptions> = {
  ttlSeconds: judgedByReader('a whole number of seconds'),
  ttlMs: judgedByReader('a whole number of milliseconds'),
}
const PUT: Shape<KvPutOptions> = {
  ...TTL,
  keepTtl: maybe(FLAG),
  ifVersion: judgedByReader("a version, '*', or null to put an entry only where there is none"),
}
const ENTRY: Shape<KvPutEntry> = { key: required(), value: required(), ...PUT }
const DELETE: Shape<KvDeleteOptions> = { ifVersion: judgedByReader("a version or '*'") }
const KEYS: Shape<KvKeysOptions> = {
  prefix: judgedByReader('the beginning of a key'),
  ...PAGING,
  reverse: maybe(FLAG),
}
const LIST: Shape<KvListOptions> = { ...KEYS, values: maybe(FLAG) }

/** Each throws `invalid_request`. */

export function checkTtlOptions(options: KvTtlOptions): void {
  checkOptions(options, TTL)
}

/** @param at where the options stand, with a point: `entries[2].` */
export function checkPutOptions(options: KvPutOptions, at: string): void {
  checkOptions(options, PUT, { at })
}

export function checkDeleteOptions(options: KvDeleteOptions): void {
  checkOptions(options, DELETE)
}

export function checkKeysOptions(options: KvKeysOptions): void {
  checkOptions(options, KEYS)
}

export function checkListOptions(options: KvListOptions): void {
  checkOptions(options, LIST)
}

/** @param at where the entry stands, with a point: `entries[2].` */
export function checkEntry(entry: KvPutEntry, at: string): void {
  checkOptions(entry, ENTRY, { at })
}
