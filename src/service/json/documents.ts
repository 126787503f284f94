import type { SqlRow, SqlValue } from '../../engine/statements/sql-values.ts'
import type { KvEntry } from '../../kv/entry.ts'
import type { BatchableOperation, OperationResults, ReadOperation } from '../operations.ts'
import type {
  EntryDocument,
  EntryPageDocument,
  ExpireDocument,
  FoundDocument,
  IncrDocument,
  PutDocument,
  PutsDocument,
} from './kv-answers.ts'
import type { SqlDocument } from './sql-answers.ts'
import { durationOf, timeOf } from './time.ts'

/** The JSON documents that answer operations: docs/http-api.md describes them, kv-answers.ts and sql-answers.ts are their schemas. */

/** An operation of a batch, whether or not its SQL was parsed. */
type InBatch = Exclude<BatchableOperation, { op: 'sql' }> | { op: 'sql' }

/** The document that answers an operation. Changes the rows of statements in place. */
export function documentOf(
  operation: InBatch | ReadOperation | { op: 'batch'; operations: readonly InBatch[] },
  result: unknown,
): unknown {
  switch (operation.op) {
    case 'sql':
      return encodeSqlResult(result as OperationResults['sql'])
    case 'kv.get':
      return encodeEntry(result as KvEntry)
    case 'kv.list':
      return encodePage(result as OperationResults['kv.list'])
    case 'kv.mget':
      return {
        entries: (result as OperationResults['kv.mget']).map((entry) => (entry ? encodeEntry(entry) : null)),
      }
    case 'kv.mset':
      return encodePuts(result as OperationResults['kv.mset'])
    case 'kv.put':
      return encodePut(result as OperationResults['kv.put'])
    case 'kv.incr':
      return encodeIncr(result as OperationResults['kv.incr'])
    case 'kv.expire':
      return encodeExpire(operation.key, result as OperationResults['kv.expire'])
    case 'kv.delete':
      return { key: operation.key, ...(result as OperationResults['kv.delete']) }
    case 'kv.getdel':
      return encodeFound(result as OperationResults['kv.getdel'])
    case 'batch': {
      const results = result as OperationResults['batch']
      return { results: operation.operations.map((each, i) => documentOf(each, results[i])) }
    }
    case 'kv.ttl':
    case 'kv.deleteMany':
      return result
  }
}

export function encodeEntry({ key, value, version, ttlSeconds, expiresAt }: KvEntry): EntryDocument {
  return { key, value, version, ttl_seconds: ttlSeconds, expires_at: timeOf(expiresAt) }
}

export function encodePut({
  key,
  created,
  version,
  ttlSeconds,
  expiresAt,
}: OperationResults['kv.put']): PutDocument {
  return { key, created, version, ttl_seconds: ttlSeconds, expires_at: timeOf(expiresAt) }
}

function encodePuts(entries: OperationResults['kv.mset']): PutsDocument {
  return { count: entries.length, entries: entries.map(encodePut) }
}

/** An entry that was asked for by its key, and need not be there. */
function encodeFound(entry: KvEntry | undefined): FoundDocument {
  return { entry: entry === undefined ? null : encodeEntry(entry) }
}

/** The value is a number while it is exact, and beyond that a decimal string. */
function encodeIncr({
  key,
  value,
  version,
  ttlSeconds,
  expiresAt,
}: OperationResults['kv.incr']): IncrDocument {
  const number = typeof value === 'bigint' ? value.toString() : value
  return { key, value: number, version, ttl_seconds: ttlSeconds, expires_at: timeOf(expiresAt) }
}

function encodeExpire(
  key: string,
  { updated, version, ttlSeconds }: OperationResults['kv.expire'],
): ExpireDocument {
  return { key, updated, version, ttl_seconds: ttlSeconds }
}

function encodePage({ entries, nextCursor }: OperationResults['kv.list']): EntryPageDocument {
  return {
    entries: entries.map(({ key, version, ttlSeconds, expiresAt, value }) => ({
      key,
      version,
      ttl_seconds: ttlSeconds,
      expires_at: timeOf(expiresAt),
      value,
    })),
    next_cursor: nextCursor,
  }
}

/** The answer to a statement. Changes the result's rows in place: values become what JSON can hold exactly. */
function encodeSqlResult(result: OperationResults['sql']): SqlDocument {
  const { columns, rows, changes, lastInsertRowid, durationMs } = result
  for (const row of rows) encodeRow(row)
  return {
    columns,
    // Encoded in place.
    rows: rows as SqlDocument['rows'],
    row_count: rows.length,
    changes,
    last_insert_rowid: typeof lastInsertRowid === 'bigint' ? lastInsertRowid.toString() : lastInsertRowid,
    duration_ms: durationOf(durationMs),
  }
}

function encodeRow(row: SqlRow | SqlValue[]): void {
  // An array's keys are its indexes, so that both kinds of rows are treated alike.
  const values = row as Record<string, unknown>
  for (const key in values) {
    const value = values[key]
    if (typeof value === 'string' || value === null) continue
    if (typeof value === 'number') {
      if (!Number.isFinite(value)) values[key] = String(value)
    } else if (typeof value === 'bigint') values[key] = value.toString()
    else values[key] = encodeBlob(value as Uint8Array)
  }
}

function encodeBlob(bytes: Uint8Array): { type: 'blob'; base64: string } {
  const { buffer, byteOffset, byteLength } = bytes
  return { type: 'blob', base64: Buffer.from(buffer, byteOffset, byteLength).toString('base64') }
}
