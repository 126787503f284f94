import type { SharedRow } from '../../catalog/shared-rows.ts'
import type { Queries, Value } from './queries.ts'
import type { LogEnd, LoggedRow, LoggedVersion } from './replica.ts'

/** The head of the catalog's log. */
export interface Head {
  store_id: string | null
  catalog_schema: number
  /** Of the newest change. */
  version: number
  /** What was deleted after this version is still there, marked. */
  floor: number
  /** The server that the log was last known to be whole in; null before the first change. */
  incarnation: string | null
  /** The server that answers. */
  own: string
}

/** Rows in one statement. */
export const ROWS_AT_ONCE = 2_000
/** Marks of what was deleted, and ids of changes, are kept for so many changes. */
const CHANGES_KEPT = 100_000
const TIDIED_EVERY = 1_000

/** @param incarnation see `Database.incarnation` */
export function selectHead(incarnation: string): string {
  return `SELECT store_id, catalog_schema, version, floor, incarnation, ${incarnation} AS own FROM cellstore.cluster WHERE id = 1`
}

const ROW = 'version, tbl AS "table", key, content'

/** What has changed since a version, if that is little. */
export function selectRowsAfter(version: number): string {
  return `SELECT ${ROW} FROM cellstore.rows WHERE version > ${version} ORDER BY version LIMIT ${ROWS_AT_ONCE + 1}`
}

export function selectVersionsAfter(version: number): string {
  return `SELECT version, id FROM cellstore.versions WHERE version > ${version} ORDER BY version`
}

/** The next rows in the order of their versions. @param count at most so many */
export function rowsAfter(
  queries: Queries,
  { version, table, key }: Omit<LoggedRow, 'content'>,
  count: number,
): Promise<LoggedRow[]> {
  return queries.query<LoggedRow>(
    `SELECT ${ROW} FROM cellstore.rows WHERE (version, tbl, key) > ($1, $2, $3)
     ORDER BY version, tbl, key LIMIT ${count}`,
    [version, table, key],
  )
}

export async function idOf(queries: Queries, version: number): Promise<string | undefined> {
  const [found] = await queries.query<{ id: string }>(
    'SELECT id FROM cellstore.versions WHERE version = $1',
    [version],
  )
  return found?.id
}

/** Adds changes to the log, whose head is locked, and moves the head to the last one. */
export async function append(transaction: Queries, { rows, versions }: LogEnd): Promise<void> {
  const last = versions.at(-1)?.version ?? 0
  const newest = newestOf(rows)
  const numbers = versions.map(({ version }) => version)
  const ids = versions.map(({ id }) => id)
  await transaction.query(
    `WITH moved AS (UPDATE cellstore.cluster SET version = $5 WHERE id = 1),
       named AS (INSERT INTO cellstore.versions SELECT * FROM unnest($6::bigint[], $7::text[]))
     ${PUT}`,
    [...columnsOf(newest.slice(0, ROWS_AT_ONCE)), last, numbers, ids],
  )
  await put(transaction, newest.slice(ROWS_AT_ONCE))
  if (numbers.some((version) => version % TIDIED_EVERY === 0)) await tidy(transaction, last - CHANGES_KEPT)
}

/** Makes a catalog the whole content of the log, at one version. */
export async function replaceAll(
  transaction: Queries,
  pages: Iterable<SharedRow[]>,
  { version, id }: LoggedVersion,
): Promise<void> {
  await transaction.query('DELETE FROM cellstore.rows')
  await transaction.query('DELETE FROM cellstore.versions')
  await transaction.query('INSERT INTO cellstore.versions VALUES ($1, $2)', [version, id])
  for (const rows of pages)
    await put(
      transaction,
      rows.map((row) => ({ ...row, version })),
    )
  await transaction.query('UPDATE cellstore.cluster SET version = $1, floor = $1 WHERE id = 1', [version])
}

const PUT = `
  INSERT INTO cellstore.rows (tbl, key, version, content)
  SELECT * FROM unnest($1::text[], $2::text[], $3::bigint[], $4::text[])
  ON CONFLICT (tbl, key) DO UPDATE SET version = excluded.version, content = excluded.content`

async function put(transaction: Queries, rows: readonly LoggedRow[]): Promise<void> {
  for (let i = 0; i < rows.length; i += ROWS_AT_ONCE)
    await transaction.query(PUT, columnsOf(rows.slice(i, i + ROWS_AT_ONCE)))
}

function columnsOf(rows: readonly LoggedRow[]): Value[] {
  return [
    rows.map(({ table }) => table),
    rows.map(({ key }) => key),
    rows.map(({ version }) => version),
    rows.map(({ content }) => content),
  ]
}

/** A statement can write a row only once. */
function newestOf(rows: readonly LoggedRow[]): LoggedRow[] {
  const newest = new Map<string, LoggedRow>()
  for (const row of rows.toSorted((a, b) => a.version - b.version)) newest.set(`${row.table} ${row.key}`, row)
  return [...newest.values()]
}

async function tidy(transaction: Queries, floor: number): Promise<void> {
  if (floor <= 0) return
  await transaction.query('UPDATE cellstore.cluster SET floor = $1 WHERE id = 1', [floor])
  await transaction.query('DELETE FROM cellstore.rows WHERE content IS NULL AND version <= $1', [floor])
  await transaction.query('DELETE FROM cellstore.versions WHERE version < $1', [floor])
}
