import type { Attack } from './attack.ts'
import { pause, repeat, type Tenant } from './tenant.ts'

const ROW_BYTES = 3_900

export const diskAttacks: Record<string, Attack> = {
  '0 12 MB commits, four a second': async (tenant) => {
    const cells = await cellsWithTables(tenant, 8)
    return (signal) =>
      repeat(tenant, signal, 1, async (turn) => {
        await tenant.sql(
          cells[turn % cells.length] as string,
          'INSERT OR REPLACE INTO t VALUES (1, zeroblob(12000000), 0)',
        )
        await pause(250, signal)
      })
  },
  '0 updates of 1.6 MB, 20 a second': async (tenant) => {
    const cells = await cellsWithTables(tenant, 4)
    for (const cell of cells)
      await tenant.must(
        cell,
        `INSERT INTO t WITH RECURSIVE r(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM r LIMIT 400) SELECT i, zeroblob(${ROW_BYTES}), 0 FROM r`,
      )
    return (signal) =>
      repeat(tenant, signal, 1, async (turn) => {
        await tenant.sql(cells[turn % cells.length] as string, 'UPDATE t SET c = c + 1')
        await pause(40, signal)
      })
  },
  '0 12 MB commits among 100 reads each': async (tenant) => {
    const cells = await cellsWithTables(tenant, 8)
    return (signal) =>
      repeat(tenant, signal, 1, async (turn) => {
        const cell = cells[turn % cells.length] as string
        const written = tenant.sql(cell, 'INSERT OR REPLACE INTO t VALUES (1, zeroblob(12000000), 0)')
        const reads = Array.from({ length: 100 }, () => tenant.ask('GET', `/databases/${cell}/kv/nothing`))
        await Promise.all([written, ...reads])
        await pause(250, signal)
      })
  },
  '0 cells made, filled with 3.7 MB and deleted': async (tenant) => {
    return (signal) =>
      repeat(tenant, signal, 2, async () => {
        const [cell] = await tenant.newCells(1)
        await tenant.sql(cell as string, 'CREATE TABLE t AS SELECT zeroblob(3700000) AS b')
        await tenant.ask('DELETE', `/databases/${cell}`)
        await pause(50, signal)
      })
  },
  '0 transactions of 300 MB that fail, in 16 cells': async (tenant) => {
    const cells = await cellsWithTables(tenant, 16)
    return (signal) =>
      repeat(tenant, signal, 2, (turn) =>
        tenant.ask('POST', `/databases/${cells[turn % cells.length]}/batch`, {
          operations: [
            { sql: 'INSERT OR REPLACE INTO t VALUES (1, zeroblob(300000000), 0)' },
            { sql: 'INSERT INTO t SELECT * FROM nothing' },
          ],
        }),
      )
  },
}

async function cellsWithTables(tenant: Tenant, count: number): Promise<string[]> {
  const cells = await tenant.newCells(count)
  for (const cell of cells) await tenant.must(cell, 'CREATE TABLE t (a INTEGER PRIMARY KEY, b, c)')
  return cells
}
