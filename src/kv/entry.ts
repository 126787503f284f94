/** One live entry. `ttlSeconds` is rounded up, so that a live entry never shows 0; −1 means that it does not expire. */
export interface KvEntry {
  key: string
  value: string
  ttlSeconds: number
  /** Epoch milliseconds, or null for an entry that does not expire. */
  expiresAt: number | null
}

export interface KvTtlOptions {
  /** Whole seconds to live, from 1. At most one of `ttlSeconds` and `ttlMs`; without both, the entry does not expire. */
  ttlSeconds?: number | undefined
  /** Whole milliseconds to live, from 1. */
  ttlMs?: number | undefined
}

export interface KvPutOptions extends KvTtlOptions {
  /** Keep the entry's time to live instead of clearing it. Not together with a new one. */
  keepTtl?: boolean | undefined
}

export interface KvPutResult {
  /** True if there was no live entry before. */
  created: boolean
  ttlSeconds: number
  expiresAt: number | null
}

export interface KvPutEntry extends KvTtlOptions {
  key: string
  value: string
}

export interface KvIncrResult {
  /** A bigint beyond ±(2^53−1). */
  value: number | bigint
  ttlSeconds: number
}

export interface KvExpireResult {
  /** False if there was no live entry. */
  updated: boolean
  /** Null if there was no live entry, −1 if it does not expire. */
  ttlSeconds: number | null
}

export interface KvListOptions {
  /** Only keys that start with this text. */
  prefix?: string | undefined
  /** `nextCursor` of the page before. */
  cursor?: string | undefined
  /** Entries on the page; 100 by default. */
  limit?: number | undefined
  /** Descending instead of ascending UTF-8 byte order. */
  reverse?: boolean | undefined
  /** Whether to read the values too; true by default. */
  values?: boolean | undefined
}

export interface KvPage {
  entries: (Omit<KvEntry, 'value'> & { value?: string })[]
  /** Pass as `cursor` for the next page; null after the last. */
  nextCursor: string | null
}
