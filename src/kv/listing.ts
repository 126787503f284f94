import type { Limits } from '../base/options/limits.ts'
import { cutPage, decodeCursor, encodeCursor } from '../base/paging.ts'
import type { KvListOptions, KvPage } from './entry.ts'
import { checkKey, prefixEnd } from './key.ts'
import { secondsLeft } from './ttl.ts'

/** SQLite sorts every blob after every text. */
const AFTER_ALL_KEYS = Buffer.alloc(0)

/** The keys from `from` on and before `to`. */
export interface KeyRange {
  from: string
  to: string | Buffer
}

/**
 * The keys that are left to list: those with the prefix, after the cursor.
 *
 * @throws `invalid_key` for a bad prefix, `invalid_request` for a bad cursor
 */
export function keyRange({ prefix = '', cursor, reverse }: KvListOptions, limits: Limits): KeyRange {
  if (prefix !== '') checkKey(prefix, limits, 'prefix')
  const range: KeyRange = { from: prefix, to: prefixEnd(prefix) ?? AFTER_ALL_KEYS }
  if (cursor === undefined) return range
  const last = decodeCursor(cursor, (key) => key || undefined)
  // A cursor of another listing can be outside of the prefix: the narrower bound holds.
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

/** Key, expiry, value if it was asked for, and version. */
export type ListRow = [key: string, expiresAt: number | null, value: string | null, version: string]

/** @param rows one more than the limit, if there are that many: then another page follows */
export function toPage(rows: ListRow[], limit: number, now: number): KvPage {
  const { page, nextCursor } = cutPage(rows, limit, ([key]) => encodeCursor(key))
  return {
    entries: page.map(([key, expiresAt, value, version]) => ({
      key,
      version,
      ttlSeconds: secondsLeft(expiresAt, now),
      expiresAt,
      ...(value === null ? {} : { value }),
    })),
    nextCursor,
  }
}

export async function* keysOf(
  entries: AsyncIterable<{ key: string }>,
): AsyncGenerator<string, void, undefined> {
  for await (const { key } of entries) yield key
}
