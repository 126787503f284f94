import type { Statement } from './sqlite.ts'

/** Opened, the text of a schema takes up to so many times as much memory: what is not text counts as less. */
const TEXT_FACTOR = 32

const SCHEMA =
  "SELECT ifnull(sum(octet_length(sql)), 0), ifnull(max(name = 'sqlite_stat4'), 0) FROM main.sqlite_schema"
/**
 * SQLite keeps up to 24 keys of each index in memory, however long they are, with three counts for each of their columns. An imported
 * table can have more of them.
 */
const STATISTICS =
  'SELECT ifnull(sum(octet_length(sample) + 12 * octet_length(neq) + 40), 0) FROM main.sqlite_stat4'

/**
 * What the schema and the planner's statistics of an open cell take in memory, as bytes of SQL text that would take as much.
 * 0 if they can't be read: then the cell's first statement fails, and says why.
 */
export function schemaWeight(database: { prepare(sql: string): Statement }): number {
  try {
    const [text, hasStatistics] = database.prepare(SCHEMA).raw().get() as [number, number]
    if (hasStatistics === 0) return text
    const bytes = database.prepare(STATISTICS).pluck().get() as number
    return text + Math.ceil(bytes / TEXT_FACTOR)
  } catch {
    return 0
  }
}
