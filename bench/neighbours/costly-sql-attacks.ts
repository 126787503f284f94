import type { Random } from '../../test/support/random.ts'
import type { Attack } from './attack.ts'
import { repeat } from './tenant.ts'

const BOMBS = [
  'WITH RECURSIVE r(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM r) SELECT count(*) FROM r',
  'WITH RECURSIVE r(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM r LIMIT 100000) SELECT count(*) FROM r a, r b, r c',
  'SELECT length(zeroblob(900000000) || zeroblob(900000000))',
  "SELECT length(printf('%*s', 900000000, 'x'))",
  'WITH RECURSIVE r(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM r LIMIT 1000000) SELECT length(group_concat(hex(zeroblob(5000)))) FROM r',
  'WITH RECURSIVE r(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM r) SELECT i, hex(randomblob(1000)) FROM r',
  'WITH RECURSIVE r(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM r LIMIT 5000000) SELECT hex(randomblob(500)) AS x FROM r ORDER BY x',
  'INSERT INTO t WITH RECURSIVE r(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM r) SELECT randomblob(1000) FROM r',
]

export const costlySqlAttacks: Record<string, Attack> = {
  '0 SQL that never ends, or takes all memory': async (tenant) => {
    const cells = await tenant.newCells(4)
    for (const cell of cells) await tenant.must(cell, 'CREATE TABLE t (x)')
    return (signal) =>
      repeat(tenant, signal, 4, (turn) =>
        tenant.sql(cells[turn % 4] as string, BOMBS[(turn + (turn >> 2)) % BOMBS.length] as string),
      )
  },
  '0 random valid SQL': async (tenant) => {
    const cells = await tenant.newCells(12)
    for (const cell of cells) await tenant.must(cell, 'CREATE TABLE t (a INTEGER PRIMARY KEY, b, c)')
    return (signal) =>
      repeat(tenant, signal, 24, () => tenant.sql(tenant.random.pick(cells), randomSql(tenant.random)))
  },
  '6 rows of empty texts': async (tenant) => emptyValues("''", 2_000, 10_000, 1)(tenant),
  '6 rows of empty blobs, in eight cells': async (tenant) => emptyValues("x''", 2_000, 10_000, 8)(tenant),
  '6 the largest answers of empty values': async (tenant) => emptyValues("''", 100, 9_000, 8)(tenant),
  '6 the largest answers of empty blobs': async (tenant) => emptyValues("x''", 16, 9_000, 8)(tenant),
  '6 the largest answers of integers': async (tenant) =>
    emptyValues('9007199254740993', 120, 9_000, 8)(tenant),
  '9 40 cells with 55 ms statements': async (tenant) => {
    const cells = await tenant.newCells(40)
    const rows = await rowsFor(55, (sql) => tenant.sql(cells[0] as string, sql))
    return (signal) =>
      repeat(tenant, signal, 40, (turn) => tenant.sql(cells[turn % 40] as string, counting(rows)))
  },
  '9 40 cells with 30 ms statements': async (tenant) => {
    const cells = await tenant.newCells(40)
    const rows = await rowsFor(30, (sql) => tenant.sql(cells[0] as string, sql))
    return (signal) =>
      repeat(tenant, signal, 40, (turn) => tenant.sql(cells[turn % 40] as string, counting(rows)))
  },
}

function counting(rows: number): string {
  return `WITH RECURSIVE r(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM r LIMIT ${rows}) SELECT count(*) FROM r`
}

/** How many rows take so long on this machine. */
async function rowsFor(ms: number, ask: (sql: string) => Promise<{ json: unknown }>): Promise<number> {
  const probe = 50_000
  let best = Number.POSITIVE_INFINITY
  for (let i = 0; i < 5; i++) {
    const { json } = await ask(counting(probe))
    best = Math.min(best, (json as { duration_ms: number }).duration_ms)
  }
  return Math.round((probe * ms) / best)
}

function emptyValues(value: string, columns: number, rows: number, lanes: number): Attack {
  const list = Array.from({ length: columns }, () => value).join(',')
  const sql = `WITH RECURSIVE r(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM r LIMIT ${rows}) SELECT ${list} FROM r`
  return async (tenant) => {
    const cells = await tenant.newCells(lanes)
    return (signal) =>
      repeat(tenant, signal, lanes, (turn) =>
        tenant.ask('POST', `/databases/${cells[turn % lanes]}/sql`, { sql, row_mode: 'array' }),
      )
  }
}

/** A statement that the policy allows, and that may take anything from a microsecond to forever. */
function randomSql(random: Random): string {
  const count = 10 ** random.below(6)
  const rows = `WITH RECURSIVE r(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM r LIMIT ${count})`
  const value = random.pick([
    'i',
    'randomblob(i % 900)',
    'hex(randomblob(20))',
    "printf('%*c', i % 3000, 'x')",
    'NULL',
  ])
  return random.pick([
    `INSERT INTO t (b, c) ${rows} SELECT ${value}, ${value} FROM r`,
    `${rows} SELECT ${value} AS v FROM r ORDER BY v LIMIT ${1 + random.below(20_000)}`,
    `${rows} SELECT count(*), group_concat(${value}) FROM r`,
    `SELECT count(*) FROM t x, t y WHERE x.a % ${1 + random.below(50)} = y.a % 7`,
    `UPDATE t SET b = ${random.below(100)} WHERE a % ${1 + random.below(100)} = 0 RETURNING a, c`,
    `DELETE FROM t WHERE a % ${1 + random.below(10)} = 0`,
    `CREATE INDEX IF NOT EXISTS t_b${random.below(4)} ON t (b, c)`,
    `DROP INDEX IF EXISTS t_b${random.below(4)}`,
    `SELECT b, count(*) OVER (PARTITION BY c ORDER BY b) FROM t LIMIT 5000`,
    `SELECT json_group_array(json_object('a', a, 'b', hex(b))) FROM t`,
    `SELECT 1 ${'+ 1'.repeat(random.below(900))}`,
  ])
}
