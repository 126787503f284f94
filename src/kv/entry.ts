/** One live entry. `ttlSeconds` is rounded up, so that a live entry never shows 0; −1 means that it does not expire. */
export interface KvEntry {
  key: string
  value: string
  ttlSeconds: number
  /** Epoch milliseconds, or null for an entry that does not expire. */
  expiresAt: number | null
}

/** A time to live. */
export interface KvTtlOptions {
  /** Whole seconds to live, from 1. Give `ttlSeconds` or `ttlMs`, not both; without either the entry does not expire. */
  ttlSeconds?: number | undefined
  /** Whole milliseconds to live, from 1. */
  ttlMs?: number | undefined
}

export interface KvPutOptions extends KvTtlOptions {
  /** Keeps the time to live of the entry that is replaced. Not together with a new one. */
  keepTtl?: boolean | undefined
}

export interface KvPutResult {
  /** True if there was no live entry before. */
  created: boolean
  /** Rounded up; −1 if it does not expire. */
  ttlSeconds: number
  /** Epoch milliseconds; null if it does not expire. */
  expiresAt: number | null
}

/** One entry for `mset`. */
export interface KvPutEntry extends KvTtlOptions {
  key: string
  value: string
}

export interface KvIncrResult {
  /** A bigint beyond ±(2^53−1). */
  value: number | bigint
  /** Rounded up; −1 if it does not expire. */
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
  /** Entries on the page; 100 by default, at most the store's limit `pageMax`. */
  limit?: number | undefined
  /** Descending instead of ascending UTF-8 byte order. */
  reverse?: boolean | undefined
  /** Whether to read the values too; true by default. */
  values?: boolean | undefined
}

/** A page of a listing. */
export interface KvPage {
  /** Without `value` if the listing was asked for none. */
  entries: (Omit<KvEntry, 'value'> & { value?: string })[]
  /** Pass as `cursor` for the next page; null after the last. */
  nextCursor: string | null
}
