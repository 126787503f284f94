import type { Attack } from './attack.ts'
import { pause, repeat, type Tenant } from './tenant.ts'

/** More than an account may hold at a time in all workers of a small machine. */
const CELLS = 100
export const INSERT = 'INSERT INTO t VALUES (randomblob(1000))'
/** Is a long transaction, and no slow statement. */
const MANY =
  'INSERT INTO t WITH RECURSIVE r(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM r LIMIT 1000) SELECT randomblob(1000) FROM r'

export async function newTables(tenant: Tenant, count = CELLS): Promise<string[]> {
  const cells = await tenant.newCells(count)
  await Promise.all(cells.map((cell) => tenant.must(cell, 'CREATE TABLE t (x)')))
  return cells
}

export async function send(
  tenant: Tenant,
  cell: string | undefined,
  sqls: string[],
  baton: unknown = null,
): Promise<unknown> {
  const requests = sqls.map((sql) => ({ type: 'execute', stmt: { sql } }))
  const { json } = await tenant.ask('POST', `/databases/${cell}/v2/pipeline`, { baton, requests })
  return (json as { baton?: unknown } | undefined)?.baton
}

/** Transactions over Hrana that nobody ends. */
export const holdAttacks: Record<string, Attack> = {
  'holds that nobody ends': async (tenant) => {
    const cells = await newTables(tenant)
    return (signal) =>
      repeat(tenant, signal, 32, async (turn) => {
        await send(tenant, cells[turn % CELLS], ['BEGIN IMMEDIATE', INSERT])
        await pause(20, signal)
      })
  },
  'holds that nobody ends, and changes of the same cells that wait for them': async (tenant) => {
    const cells = await newTables(tenant)
    return async (signal) => {
      const holding = repeat(tenant, signal, 32, (turn) =>
        send(tenant, cells[turn % CELLS], ['BEGIN IMMEDIATE', INSERT]),
      )
      const waiting = repeat(tenant, signal, 200, (turn) => tenant.sql(cells[turn % CELLS] as string, INSERT))
      await Promise.all([holding, waiting])
    }
  },
  'holds that write until their time is over': async (tenant) => {
    const cells = await newTables(tenant)
    return (signal) =>
      repeat(tenant, signal, 8, async (turn) => {
        const cell = cells[turn % CELLS]
        let baton = await send(tenant, cell, ['BEGIN', MANY])
        while (baton != null && !signal.aborted) baton = await send(tenant, cell, [MANY], baton)
      })
  },
  'streams that nobody closes, with texts': async (tenant) => {
    const [cell] = await newTables(tenant)
    const sql = `SELECT '${'x'.repeat(90_000)}'`
    const requests = [{ type: 'store_sql', sql_id: 1, sql }]
    return (signal) =>
      repeat(tenant, signal, 32, () =>
        tenant.ask('POST', `/databases/${cell}/v3/pipeline`, { baton: null, requests }),
      )
  },
}
