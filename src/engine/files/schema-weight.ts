import type { Statement } from '../sqlite.ts'

/** Opened, the text of a schema takes up to so many times as much memory. */
const TEXT_FACTOR = 32

const SCHEMA =
  "SELECT ifnull(sum(octet_length(sql)), 0), ifnull(max(name = 'sqlite_stat4'), 0) FROM main.sqlite_schema"
/**
 * SQLite keeps up to 24 keys of each index in memory, however long they are, with three counts for each of their columns.
 */
const STATISTICS =
  'SELECT ifnull(sum(octet_length(sample) + 12 * octet_length(neq) + 40), 0) FROM main.sqlite_stat4'

/** Bytes of memory that the schema and the planner's statistics of an open cell take at most. @throws SQLite's errors */
export function schemaWeight(database: { prepare(sql: string): Statement }): number {
  const [text, hasStatistics] = database.prepare(SCHEMA).raw().get() as [number, number]
  const statistics = hasStatistics === 0 ? 0 : (database.prepare(STATISTICS).pluck().get() as number)
  return TEXT_FACTOR * text + statistics
}
