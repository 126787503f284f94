import type { Client } from '../../../client/index.ts'

/** Keys are a tree by colons: `user:1:name` is in the group `user:1:`, and that one in `user:`. */
const SEPARATOR = ':'
/** Nodes that are loaded at once. */
const LEVEL = 200
const LISTED = 1_000

export interface KvNode {
  /** What it adds to the prefix of its level. */
  label: string
  /** The whole key, or the prefix of the group. */
  path: string
  isGroup: boolean
}

export interface KvLevel {
  nodes: KvNode[]
  /** Where the next nodes begin; undefined at the end. */
  next: string | undefined
}

export interface LevelSource {
  client: Client
  id: string
  /** Whether the key may use SQL. */
  sql: boolean
}

/** The groups and keys right below a prefix. @param from `next` of what was loaded before */
export async function loadLevel(
  source: LevelSource,
  prefix: string,
  from: string | undefined,
  signal: AbortSignal,
): Promise<KvLevel> {
  return source.sql ? await bySql(source, prefix, from, signal) : await byList(source, prefix, from, signal)
}

/** Goes from the first key of a group to the first key after it: a million keys in one group cost one step. */
const STEPS = `
  WITH RECURSIVE step(name, n) AS (
    SELECT (SELECT key FROM cell_kv WHERE key >= :from AND key < :end ORDER BY key LIMIT 1), 1
    UNION ALL
    SELECT (SELECT key FROM cell_kv WHERE key >= CASE instr(substr(name, length(:prefix) + 1), ':')
        WHEN 0 THEN name || char(1)
        ELSE substr(name, 1, length(:prefix) + instr(substr(name, length(:prefix) + 1), ':') - 1) || ';'
      END AND key < :end ORDER BY key LIMIT 1), n + 1
    FROM step WHERE name IS NOT NULL AND n <= :count
  )
  SELECT name FROM step WHERE name IS NOT NULL`

async function bySql(
  { client, id }: LevelSource,
  prefix: string,
  from: string | undefined,
  signal: AbortSignal,
): Promise<KvLevel> {
  const params = { prefix, from: from ?? prefix, end: `${prefix}\u{10ffff}`, count: LEVEL }
  const { rows } = await client.sql<{ name: string }>({ id, sql: STEPS, params }, { signal })
  const nodes = rows.map(({ name }) => nodeOf(prefix, name))
  return { nodes: nodes.slice(0, LEVEL), next: rows[LEVEL]?.name }
}

/** For a key of the KV surface alone: the groups of the next thousand keys. */
async function byList(
  { client, id }: LevelSource,
  prefix: string,
  from: string | undefined,
  signal: AbortSignal,
): Promise<KvLevel> {
  const cursor = from === undefined ? {} : { cursor: from }
  const { entries, next_cursor } = await client.kvList({ id, prefix, limit: LISTED, ...cursor }, { signal })
  const nodes = new Map(entries.map(({ key }) => nodeOf(prefix, key)).map((node) => [node.path, node]))
  return { nodes: [...nodes.values()], next: next_cursor ?? undefined }
}

function nodeOf(prefix: string, key: string): KvNode {
  const at = key.indexOf(SEPARATOR, prefix.length)
  if (at === -1) return { label: key.slice(prefix.length), path: key, isGroup: false }
  return { label: key.slice(prefix.length, at + 1), path: key.slice(0, at + 1), isGroup: true }
}

/** The nodes of several loads, each once: a group may go on in the next one. */
export function merged(levels: readonly KvLevel[]): KvNode[] {
  const nodes = levels.flatMap((level) => level.nodes)
  return [...new Map(nodes.map((node) => [`${node.isGroup} ${node.path}`, node])).values()]
}
