import type { Limits } from '../base/options/limits.ts'

/**
 * All SQL of the KV part. An entry is live while it has no `expires_at` or one in the future. Every query checks that
 * itself, so that an expired entry is invisible whether or not it has been collected (invariant 11).
 */

/** WITHOUT ROWID: one b-tree, so that a put writes one place. The index is partial: entries that do not expire cost nothing. */
export const KV_SCHEMA = `
  CREATE TABLE _cell_kv (
    key TEXT NOT NULL PRIMARY KEY,
    value TEXT NOT NULL,
    expires_at INTEGER, -- epoch milliseconds; NULL: does not expire
    version INTEGER NOT NULL
  ) STRICT, WITHOUT ROWID;
  CREATE INDEX _cell_kv_expiry ON _cell_kv (expires_at) WHERE expires_at IS NOT NULL;
`

/**
 * Gives the table of a cell of schema version 1 its column. All entries get one version, in the definition, so that no row
 * is written. It is a new one each time: a backup from before is restored with another.
 */
export function addVersions(version: bigint): string {
  return `ALTER TABLE main._cell_kv ADD COLUMN version INTEGER NOT NULL DEFAULT ${version};`
}

/** The view is made only for SQL that mentions it: a TEMP schema takes 100 KB of a connection's memory. */
export const KV_VIEW_NAME = /cell_kv/i

/**
 * The tenant's view. It is TEMP, made on each connection: a stored view would fail in other programs and could be dropped.
 * It is made again whenever SQL mentions it: the transaction that first made it may have been rolled back.
 */
export const KV_VIEW = `
  CREATE TEMP VIEW IF NOT EXISTS cell_kv (key, value, expires_at) AS
  SELECT key, value, expires_at FROM main._cell_kv WHERE expires_at IS NULL OR expires_at > _cell_now()
`

export const GET_VALUE =
  'SELECT value FROM main._cell_kv WHERE key = ? AND (expires_at IS NULL OR expires_at > ?)'

/** Versions leave SQLite as text: they have more digits than a number of JavaScript. */
const VERSION = 'CAST(version AS TEXT)'

export const GET_ENTRY = `SELECT value, expires_at, ${VERSION} FROM main._cell_kv WHERE key = ? AND (expires_at IS NULL OR expires_at > ?)`

export const GET_COUNTER =
  'SELECT value, expires_at FROM main._cell_kv WHERE key = ? AND (expires_at IS NULL OR expires_at > ?)'

export const GET_EXPIRY =
  'SELECT expires_at FROM main._cell_kv WHERE key = ? AND (expires_at IS NULL OR expires_at > ?)'

/** For an entry that does not expire, and will not: no index has to be looked at. Most puts need only this statement. */
export const UPDATE_PERSISTENT =
  'UPDATE main._cell_kv SET value = ?, version = ? WHERE key = ? AND expires_at IS NULL'

/** Only where there is no entry, be it an expired one. */
export const INSERT_NEW =
  'INSERT INTO main._cell_kv (key, value, version) VALUES (?, ?, ?) ON CONFLICT (key) DO NOTHING'

/** First half of any other put: most find a live entry and need only this statement. */
export const UPDATE_LIVE =
  'UPDATE main._cell_kv SET value = ?, expires_at = ?, version = ? WHERE key = ? AND (expires_at IS NULL OR expires_at > ?)'

/** The same for an entry of one version. */
export const UPDATE_IF = `${UPDATE_LIVE} AND version = ?`

const SET_VALUE =
  'UPDATE main._cell_kv SET value = ?, version = ? WHERE key = ? AND (expires_at IS NULL OR expires_at > ?)'

/** Keeps the time to live, and returns it. */
export const UPDATE_VALUE = `${SET_VALUE} RETURNING expires_at`

export const UPDATE_VALUE_IF = `${SET_VALUE} AND version = ? RETURNING expires_at`

/** Second half: without a live entry, an expired one is replaced together with its time to live. */
export const UPSERT =
  'INSERT OR REPLACE INTO main._cell_kv (key, value, expires_at, version) VALUES (?, ?, ?, ?)'

/** Replaces an expired entry, and leaves a live one as it is. */
export const INSERT_IF_ABSENT = `
  INSERT INTO main._cell_kv (key, value, expires_at, version) VALUES (?, ?, ?, ?)
  ON CONFLICT (key) DO UPDATE SET value = excluded.value, expires_at = excluded.expires_at, version = excluded.version
  WHERE _cell_kv.expires_at <= ?`

export const UPDATE_EXPIRY =
  'UPDATE main._cell_kv SET expires_at = ?, version = ? WHERE key = ? AND (expires_at IS NULL OR expires_at > ?)'

export const DELETE_LIVE =
  'DELETE FROM main._cell_kv WHERE key = ? AND (expires_at IS NULL OR expires_at > ?)'

export const DELETE_IF = `${DELETE_LIVE} AND version = ?`

export const DELETE_RETURNING = `${DELETE_LIVE} RETURNING value, expires_at, ${VERSION}`

/** A range of the primary key: it costs as much as it finds. @param reverse descending key order */
export function listQuery(values: boolean, reverse: boolean): string {
  return `
    SELECT key, expires_at, ${values ? 'value' : 'NULL'}, ${VERSION} FROM main._cell_kv
    WHERE key >= ? AND key < ? AND (expires_at IS NULL OR expires_at > ?)
    ORDER BY key ${reverse ? 'DESC' : 'ASC'} LIMIT ?`
}

/** Bounded by a count, so that one batch never blocks the cell for long. */
export const DELETE_EXPIRED = `
  DELETE FROM main._cell_kv WHERE key IN (
    SELECT key FROM main._cell_kv INDEXED BY _cell_kv_expiry
    WHERE expires_at IS NOT NULL AND expires_at <= ? ORDER BY expires_at LIMIT ?
  )`

/** The same for a cell that somebody watches. */
export const DELETE_EXPIRED_RETURNING = `${DELETE_EXPIRED} RETURNING key`

export const NEXT_EXPIRY =
  'SELECT min(expires_at) FROM main._cell_kv INDEXED BY _cell_kv_expiry WHERE expires_at IS NOT NULL'

/** Epoch milliseconds of the last date that JavaScript knows. */
const TIME_MAX = 8.64e15

/** SQL that finds an entry which no put would have taken, in a database that was made elsewhere. */
export function wrongEntryQuery({ keyBytesMax, valueBytesMax }: Limits): string {
  return `
    SELECT 1 FROM main._cell_kv
    WHERE octet_length(key) NOT BETWEEN 1 AND ${keyBytesMax} OR instr(key, char(0)) > 0
      OR octet_length(value) > ${valueBytesMax}
      OR expires_at NOT BETWEEN 0 AND ${TIME_MAX} OR version < 0
    LIMIT 1`
}
