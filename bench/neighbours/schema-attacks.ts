import type { Attack } from './attack.ts'
import { repeat, type Tenant } from './tenant.ts'

const WORDS = 'WITH RECURSIVE r(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM r LIMIT $n)'

export const schemaAttacks: Record<string, Attack> = {
  '4 views with long IN lists': async (tenant) => {
    const cells = await tenant.newCells(9)
    await Promise.all(cells.map((cell) => fillWithViews(tenant, cell)))
    return (signal) =>
      repeat(tenant, signal, 44, (turn) => {
        const cell = cells[turn % cells.length] as string
        if (turn % 4 === 0) return tenant.sql(cell, 'SELECT * FROM v0')
        return tenant.ask('GET', `/databases/${cell}/kv/nothing`)
      })
  },
  '4 many cells with large schemas, opened in turn': async (tenant) => {
    const cells = await tenant.newCells(60)
    for (let at = 0; at < cells.length; at += 10)
      await Promise.all(cells.slice(at, at + 10).map((cell) => fillWithViews(tenant, cell)))
    return (signal) =>
      repeat(tenant, signal, 32, (turn) =>
        tenant.ask('GET', `/databases/${cells[turn % cells.length]}/kv/nothing`),
      )
  },
  '5 FTS5 with a raised crisismerge': async (tenant) => {
    const cells = await tenant.newCells(4)
    for (const cell of cells) {
      await tenant.must(cell, 'CREATE VIRTUAL TABLE f USING fts5(x)')
      await tenant.sql(cell, "INSERT INTO f(f, rank) VALUES ('crisismerge', 1999)")
      await tenant.sql(cell, "INSERT INTO f(f, rank) VALUES ('automerge', 0)")
    }
    return (signal) =>
      repeat(tenant, signal, 8, (turn) =>
        tenant.sql(
          cells[turn % 4] as string,
          `INSERT INTO f ${WORDS.replace('$n', '2000')} SELECT hex(randomblob(8)) || ' ' || hex(randomblob(6)) FROM r`,
        ),
      )
  },
  '5 one large FTS5 insert after the other': async (tenant) => {
    const cells = await tenant.newCells(4)
    for (const cell of cells)
      await tenant.must(cell, 'CREATE VIRTUAL TABLE f USING fts5(x, prefix="1 2 3 4")')
    return (signal) =>
      repeat(tenant, signal, 8, (turn) =>
        tenant.sql(
          cells[turn % 4] as string,
          `INSERT INTO f ${WORDS.replace('$n', String(500 + tenant.random.below(20_000)))} SELECT hex(randomblob(40)) FROM r`,
        ),
      )
  },
  '13 long IN lists for the statement cache': async (tenant) => {
    const cells = await tenant.newCells(4)
    return (signal) =>
      repeat(tenant, signal, 12, (turn) => {
        const list = Array.from({ length: 15_000 }, (_, i) => i + turn).join(',')
        return tenant.sql(cells[turn % 4] as string, `SELECT 1 WHERE 1 IN (${list})`.slice(0, 102_400))
      })
  },
}

/** Until the schema is full. */
async function fillWithViews(tenant: Tenant, cell: string): Promise<void> {
  const list = Array.from({ length: 8_000 }, (_, i) => i % 10).join(',')
  for (let i = 0; i < 140; i++) {
    const { status } = await tenant.sql(cell, `CREATE VIEW v${i} AS SELECT 1 AS x WHERE 1 IN (${list})`)
    if (status !== 200) return
  }
}
