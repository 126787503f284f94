import fs from 'node:fs'
import { expect, test } from 'vitest'
import type { CellOperation } from '../../src/service/operations.ts'
import { processorMs } from '../support/processes.ts'
import { requestOf, statementsOf } from '../support/request-bounds.ts'
import { rejectedBy } from '../support/thrown.ts'
import { openWorkerStore, type WorkerStore } from '../support/worker-store.ts'
import { untilHeldUp } from '../support/workers/held-up.ts'

const ENDLESS = 'WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c) SELECT max(n) FROM c'
const COUNT =
  'WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c LIMIT ?) SELECT count(*) AS n FROM c'
/** Of memory in one statement. */
const BOMB = 'SELECT length(zeroblob(900000000) || zeroblob(900000000))'
const NEIGHBOURS = 5
const EACH = 8
const MIB = 1_048_576

const sql = (text: string): CellOperation & { op: 'sql' } => ({ op: 'sql', sql: text })
const incr = { op: 'kv.incr', key: 'n' } as const

function newCells(node: WorkerStore, count: number): string[] {
  return Array.from({ length: count }, () => node.store.createCell().id)
}

/** Writes to many cells at once, each of which counts. */
async function countUp({ service }: WorkerStore, cells: readonly string[]): Promise<void> {
  await Promise.all(cells.flatMap((id) => Array.from({ length: EACH }, () => service.execute(id, incr))))
}

async function countsOf({ service }: WorkerStore, cells: readonly string[]): Promise<unknown[]> {
  return await Promise.all(
    cells.map(async (id) => (await service.execute(id, { op: 'kv.get', key: 'n' }))?.value),
  )
}

/** Until a worker has used so much time of a processor that it can only be a statement. The worker may only start now. */
async function untilOneIsBusy(node: WorkerStore): Promise<void> {
  const before = new Map(node.workers.map((pid) => [pid, processorMs(pid)]))
  const isBusy = (pid: number) => processorMs(pid) - (before.get(pid) ?? 0) > 1_000
  await expect.poll(() => node.workers.some(isBusy)).toBe(true)
}

const once = (cells: readonly string[]) => cells.map(() => String(EACH))
const reasons = (node: WorkerStore) => node.lostWorkers.map(({ fields }) => fields['reason'])

test('a statement over its deadline ends with 408, and the operations behind it are done exactly once', async () => {
  const node = await openWorkerStore({ service: { limits: { blockMs: 60_000 } } })
  const [culprit = '', ...cells] = newCells(node, 1 + NEIGHBOURS)
  await node.service.execute(culprit, sql('CREATE TABLE t (n)'))
  const endless = node.service.execute(
    culprit,
    requestOf('sql', { sql: `INSERT INTO t ${ENDLESS}`, timeout_ms: 300 }),
  )
  const refused = expect(endless).rejects.toMatchObject({
    code: 'statement_timeout',
    details: { limit: 300 },
  })
  await countUp(node, cells)
  await refused
  expect(await countsOf(node, cells)).toEqual(once(cells))
  expect((await node.service.execute(culprit, sql('SELECT * FROM t'))).rows).toEqual([])
  expect(reasons(node)).toEqual(['timeout'])
})

test('a statement that holds up others is run again in the slow worker, and comes to its end; later its cell returns', async () => {
  const node = await openWorkerStore({ service: { limits: { blockMs: 30, slowWorkerMs: 1_000 } } })
  const [slow = '', ...cells] = newCells(node, 1 + NEIGHBOURS)
  await node.service.execute(slow, sql('CREATE TABLE t (n)'))
  let asked = 0
  const neighbours = async () => {
    await countUp(node, cells)
    asked += EACH
  }
  const counted: { n: number }[] = []
  await untilHeldUp(node, neighbours, async (n) => {
    counted.push({ n })
    const insert = { ...sql(`INSERT INTO t ${COUNT} RETURNING n`), params: [n] }
    expect((await node.service.execute(slow, insert)).rows).toEqual([{ n }])
  })
  expect(reasons(node)).toEqual(['held-up'])
  await countUp(node, [slow, ...cells])
  expect((await node.service.execute(slow, sql('SELECT n FROM t'))).rows).toEqual(counted)
  expect(await countsOf(node, cells)).toEqual(cells.map(() => String(asked + EACH)))
  expect(await countsOf(node, [slow])).toEqual(once([slow]))
})

test('a cell whose statements keep running into deadlines is slowed down, and no other', async () => {
  const node = await openWorkerStore()
  const [culprit = '', ...cells] = newCells(node, 1 + NEIGHBOURS)
  for (let strike = 0; strike < 3; strike++) {
    const refused = await rejectedBy(
      node.service.execute(culprit, requestOf('sql', { sql: ENDLESS, timeout_ms: 100 })),
    )
    expect(refused.code).toBe('statement_timeout')
  }
  const slowedDown = await rejectedBy(node.service.execute(culprit, sql('SELECT 1')))
  expect(slowedDown.code).toBe('rate_limited')
  expect(slowedDown.details.retryAfterMs).toBeGreaterThan(0)
  await countUp(node, cells)
  expect(await countsOf(node, cells)).toEqual(once(cells))
})

test('a client that hangs up ends its statement, and its cell goes on at once', async () => {
  const node = await openWorkerStore({ service: { limits: { blockMs: 30 } } })
  const [cell = ''] = newCells(node, 1)
  const abort = new AbortController()
  const endless = node.service.execute(cell, sql(ENDLESS), { signal: abort.signal })
  const behind = node.service.execute(cell, incr)
  await untilOneIsBusy(node)
  abort.abort(new Error('hung up'))
  await expect(endless).rejects.toThrow('hung up')
  expect(await behind).toMatchObject({ value: 1 })
  expect(reasons(node)).toEqual(['abandoned'])
})

test('a statement that asks for more memory than its worker may use is refused, and its neighbours are served', async () => {
  const node = await openWorkerStore({ service: { limits: { memoryMax: 200 * MIB } } })
  const [bomber = '', ...cells] = newCells(node, 1 + NEIGHBOURS)
  const bomb = rejectedBy(node.service.execute(bomber, sql(BOMB)))
  await countUp(node, cells)
  const refused = await bomb
  expect(['result_memory_exceeded', 'result_too_large', 'sql_error']).toContain(refused.code)
  expect(await countsOf(node, cells)).toEqual(once(cells))
  expect(await node.service.execute(bomber, incr)).toMatchObject({ value: 1 })
})

test('a statement that adds more to its cell’s log than it may is ended and undone; what was committed before and what waits behind it is there once, and the log is given back', async () => {
  const walBytesMax = 20 * MIB
  const limits = { blockMs: 60_000 }
  const node = await openWorkerStore({
    store: { limits: { walBytesMax } },
    service: { limits, bounds: statementsOf(60_000) },
  })
  const [culprit = '', ...cells] = newCells(node, 1 + NEIGHBOURS)
  const run = (text: string) => node.service.execute(culprit, sql(text))
  await run('CREATE TABLE t (x)')
  const counted = (rows: string) => `WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c${rows})`
  for (let i = 0; i < 6; i++)
    await run(`INSERT INTO t ${counted(' LIMIT 10')} SELECT randomblob(1000000) FROM c`)
  // The second one makes the file no longer, and takes its time for each row.
  const slow = `(${counted(' LIMIT 50000')} SELECT max(n) FROM c WHERE n <> t.rowid)`
  for (const text of [
    `INSERT INTO t ${counted('')} SELECT randomblob(100000) FROM c`,
    `UPDATE t SET x = randomblob(1000000 + 0 * ${slow})`,
  ]) {
    const refused = rejectedBy(run(text))
    const behind = node.service.execute(culprit, incr)
    await countUp(node, cells)
    expect(await refused).toMatchObject({ code: 'transaction_too_large', details: { limit: walBytesMax } })
    await behind
    expect(fs.statSync(node.store.paths.cell(culprit).wal).size).toBeLessThan(walBytesMax)
  }
  expect(reasons(node)).toEqual(['log', 'log'])
  expect((await run('SELECT count(*) AS n FROM t')).rows).toEqual([{ n: 60 }])
  expect(await countsOf(node, [culprit, ...cells])).toEqual(['2', ...cells.map(() => String(2 * EACH))])
})

test('the operations that wait for one cell are bounded, and a refusal says when to try again (invariant 13)', async () => {
  const node = await openWorkerStore()
  const [busy = '', other = ''] = newCells(node, 2)
  const abort = new AbortController()
  const endless = node.service.execute(busy, sql(ENDLESS), { signal: abort.signal })
  const settled = Promise.allSettled(Array.from({ length: 2_100 }, () => node.service.execute(busy, incr)))
  expect(await node.service.execute(other, incr)).toMatchObject({ value: 1 })
  abort.abort(new Error('hung up'))
  await expect(endless).rejects.toThrow('hung up')
  const refused = (await settled).filter((each) => each.status === 'rejected')
  expect(refused.length).toBeGreaterThan(50)
  for (const { reason } of refused)
    expect(reason).toMatchObject({ code: 'busy', details: { retryAfterMs: 1_000 } })
  const done = 2_100 - refused.length
  expect(await node.service.execute(busy, { op: 'kv.get', key: 'n' })).toMatchObject({
    value: String(done),
  })
})

test('a cell can be deleted while a statement on it runs in the slow worker', async () => {
  const node = await openWorkerStore({ service: { limits: { blockMs: 30 }, bounds: statementsOf(3_000) } })
  const [slow = '', ...cells] = newCells(node, 1 + NEIGHBOURS)
  const endless = rejectedBy(node.service.execute(slow, sql(ENDLESS)))
  await countUp(node, cells)
  await expect.poll(() => reasons(node)).toContain('held-up')
  await untilOneIsBusy(node)
  await node.service.deleteCell(slow)
  expect((await endless).code).toBe('statement_timeout')
  await expect(node.service.execute(slow, incr)).rejects.toMatchObject({ code: 'cell_not_found' })
  expect(await countsOf(node, cells)).toEqual(once(cells))
})

test('a cell whose group answers with more than fits into memory at once gets every answer', async () => {
  const node = await openWorkerStore({ service: { limits: { memoryMax: 500 * MIB } } })
  const [cell = ''] = newCells(node, 1)
  await node.service.execute(cell, sql('CREATE TABLE t (n)'))
  const insert = 'INSERT INTO t VALUES (?) RETURNING hex(zeroblob(4000000)) AS x'
  const answers = await Promise.all(
    Array.from({ length: 60 }, async (_, n) => {
      const { rows } = await node.service.execute(cell, { op: 'sql', sql: insert, params: [n] })
      return String(rows[0] && Object.values(rows[0])[0]).length
    }),
  )
  expect(answers).toEqual(answers.map(() => 8_000_000))
  expect((await node.service.execute(cell, sql('SELECT count(*) AS n FROM t'))).rows).toEqual([{ n: 60 }])
  expect(reasons(node)).toEqual([])
})
