/** One live entry: what `entry()`, `list()` and `getdel()` return, and the results of changes in part. */
export interface KvEntry {
  key: string
  value: string
  /**
   * Another one after every change of the entry, also of its time to live. It never comes back for a key: not after a
   * deletion or an expiry, nor after a restore. A text that tells nothing else.
   */
  version: string
  /** Rounded up, so that a live entry never shows 0; −1 means that it does not expire. */
  ttlSeconds: number
  /** Epoch milliseconds, or null for an entry that does not expire. */
  expiresAt: number | null
}

/** A time to live. */
export interface KvTtlOptions {
  /** Whole seconds to live, from 1. Give `ttlSeconds` or `ttlMs`, not both; without either the entry does not expire. */
  ttlSeconds?: number
  /** Whole milliseconds to live, from 1. */
  ttlMs?: number
}

/** What has to be there for a change to happen. Judged in the same transaction as the change. */
export interface KvConditionOptions {
  /**
   * Only if the entry has this version (compare-and-set); `null`: only if there is no live entry (put-if-absent); `'*'`: only
   * if there is one. If not, nothing is changed, and `precondition_failed` is thrown. Leave it out to change whatever is
   * there; `undefined` is refused, so that a missing entry's `?.version` does not do that.
   */
  ifVersion?: string | null
}

export interface KvPutOptions extends KvTtlOptions, KvConditionOptions {
  /** Keeps the time to live of the entry that is replaced. Not together with a new one. */
  keepTtl?: boolean | undefined
}

/** The entry, without the value that was given. */
export interface KvPutResult extends Omit<KvEntry, 'value'> {
  /** True if there was no live entry before. */
  created: boolean
}

/** One of several entries to put. */
export interface KvPutEntry extends KvPutOptions {
  key: string
  value: string
}

export interface KvDeleteOptions extends KvConditionOptions {
  /** Only if the entry has this version; `'*'`: only if there is a live entry. If not, `precondition_failed` is thrown. */
  ifVersion?: string
}

/** The entry, with its value as a number. */
export interface KvIncrResult extends Omit<KvEntry, 'value'> {
  /** A bigint beyond ±(2^53−1). */
  value: number | bigint
}

/** What `expire()` has done. */
export interface KvExpireResult {
  /** False if there was no live entry. */
  updated: boolean
  /** The entry's new version; null if there was no live entry. */
  version: string | null
  /** Null if there was no live entry, −1 if it does not expire. */
  ttlSeconds: number | null
}

/** Which entries, in which order, and how many of them. */
export interface KvListOptions {
  /** Only keys that start with this text. */
  prefix?: string
  /** `nextCursor` of the page before. */
  cursor?: string | undefined
  /** Entries on the page; 100 by default, at most the store's limit `pageMax`. */
  limit?: number | undefined
  /** Descending instead of ascending UTF-8 byte order. */
  reverse?: boolean | undefined
  /** Whether to read the values too; true by default. */
  values?: boolean | undefined
}

/** Of which keys, in which order, and how many are read at a time. */
export type KvKeysOptions = Omit<KvListOptions, 'values'>

/** An entry of a listing. */
export interface KvListEntry extends Omit<KvEntry, 'value'> {
  /** Absent if the listing was asked for no values. */
  value?: string
}

/** A page of a listing. */
export interface KvPage<Entry extends KvListEntry = KvListEntry> {
  entries: Entry[]
  /** Pass as `cursor` for the next page; null after the last. */
  nextCursor: string | null
}
