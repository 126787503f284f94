import type { Limits } from '../base/limits.ts'
import { cutPage, decodeCursor } from '../base/paging.ts'
import type { KvListOptions, KvPage } from './entry.ts'
import { checkKey, prefixEnd } from './key.ts'
import { secondsLeft } from './ttl.ts'

/** SQLite sorts every blob after every text. */
const AFTER_ALL_KEYS = Buffer.alloc(0)

/** What a page can hold: keys from `from` on, before `to`. */
export interface KeyRange {
  from: string
  to: string | Buffer
}

/**
 * The keys that are still to come: those with the prefix, and behind the cursor.
 *
 * @throws `invalid_key` for a bad prefix, `invalid_request` for a bad cursor
 */
export function keyRange({ prefix = '', cursor, reverse }: KvListOptions, limits: Limits): KeyRange {
  if (prefix !== '') checkKey(prefix, limits, 'prefix')
  const range: KeyRange = { from: prefix, to: prefixEnd(prefix) ?? AFTER_ALL_KEYS }
  if (cursor === undefined) return range
  const last = decodeCursor(cursor, (key) => key || undefined)
  // A cursor of another listing can lie outside of the prefix: the narrower bound holds.
  if (reverse) {
    if (typeof range.to !== 'string' || compareKeys(last, range.to) < 0) range.to = last
  } else {
    // The least text after a key is that key and a NUL.
    const next = `${last}\0`
    if (compareKeys(next, range.from) > 0) range.from = next
  }
  return range
}

/** As SQLite compares them. */
function compareKeys(a: string, b: string): number {
  return Buffer.compare(Buffer.from(a), Buffer.from(b))
}

/** Key, expiry, and value if it was asked for. */
export type ListRow = [key: string, expiresAt: number | null, value: string | null]

/** @param rows up to one more than the limit: whether there is a next page */
export function toPage(rows: ListRow[], limit: number, now: number): KvPage {
  const { page, nextCursor } = cutPage(rows, limit, ([key]) => key)
  return {
    entries: page.map(([key, expiresAt, value]) => ({
      key,
      ttlSeconds: secondsLeft(expiresAt, now),
      expiresAt,
      ...(value === null ? {} : { value }),
    })),
    nextCursor,
  }
}
