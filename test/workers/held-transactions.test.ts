import { randomUUID } from 'node:crypto'
import { expect, test, vi } from 'vitest'
import { isCellError } from '../../src/errors.ts'
import type { CellOperation, OperationHold } from '../../src/service/operations.ts'
import { countOf } from '../support/counts.ts'
import { BOUNDS } from '../support/request-bounds.ts'
import { seededRandom } from '../support/seed.ts'
import { rejectedBy } from '../support/thrown.ts'
import { until } from '../support/until.ts'
import { openWorkerStore, type WorkerStore } from '../support/worker-store.ts'

const KILLS = countOf('CELLSTORE_WORKER_KILLS')
const ROWS = 3

vi.setConfig({ testTimeout: 180_000 + KILLS * 5_000 })

const holds = { timeoutMs: 60_000, idleMs: 10_000, perAccount: 100, total: 100 }
const service = { workers: 2, bounds: { ...BOUNDS, holds } }

async function newCell(node: WorkerStore): Promise<string> {
  const { id } = node.store.createCell()
  await node.service.execute(id, { op: 'sql', sql: 'CREATE TABLE t (transaction_id, n)' })
  return id
}

/** A client that begins one transaction after the other. */
class Holder {
  readonly #node: WorkerStore
  readonly #cellId: string
  readonly outcomes = new Map<string, 'committed' | 'lost' | 'unknown'>()
  isOver = false

  constructor(node: WorkerStore, cellId: string) {
    this.#node = node
    this.#cellId = cellId
  }

  async run(): Promise<void> {
    while (!this.isOver) {
      const id = randomUUID()
      this.outcomes.set(id, await this.#transaction(id))
    }
  }

  async #transaction(id: string): Promise<'committed' | 'lost' | 'unknown'> {
    const execute = (operation: CellOperation) => this.#node.service.execute(this.#cellId, operation)
    const hold: OperationHold = { id, isOpen: true }
    const insert = { op: 'sql', sql: 'INSERT INTO t VALUES (?, ?)' } as const
    let isCommitting = false
    try {
      await execute({ op: 'hold', step: 'begin', hold: { id, isOpen: false } })
      for (let n = 0; n < ROWS; n++) await execute({ ...insert, params: [id, n], hold })
      await execute({ op: 'kv.incr', key: 'held', hold })
      isCommitting = true
      await execute({ op: 'hold', step: 'commit', hold })
      return 'committed'
    } catch (error) {
      if (isCellError(error, 'transaction_lost')) return 'lost'
      // Of a COMMIT the WAL tells.
      if (isCommitting && !isCellError(error)) return 'unknown'
      throw error
    }
  }
}

/** A client without transactions. */
class Counter {
  acknowledged = 0
  isOver = false

  async run(node: WorkerStore, cellId: string): Promise<void> {
    while (!this.isOver) {
      await node.service.execute(cellId, { op: 'kv.incr', key: 'n' })
      this.acknowledged++
    }
  }
}

test(`workers are killed at any instant beside held transactions: each is there as a whole or not at all, as its client was told, and other changes exactly once (invariants 1, 8; ${KILLS} kills)`, async () => {
  const random = seededRandom()
  const node = await openWorkerStore({ service })
  const cells = await Promise.all(Array.from({ length: 3 }, () => newCell(node)))
  const clients = cells.map((cellId) => ({
    cellId,
    holders: [new Holder(node, cellId), new Holder(node, cellId)],
    counter: new Counter(),
  }))
  const running = clients.flatMap(({ cellId, holders, counter }) => [
    ...holders.map((holder) => holder.run()),
    counter.run(node, cellId),
  ])
  const done = () =>
    clients.flatMap(({ holders }) => holders).reduce((sum, { outcomes }) => sum + outcomes.size, 0)
  for (let kill = 0; kill < KILLS; kill++) {
    const goal = done() + random.below(6)
    await until(() => done() > goal && node.workers.length >= 2, 'the clients get on')
    await new Promise((resolve) => setTimeout(resolve, random.below(20)))
    process.kill(random.pick(node.workers), 'SIGKILL')
  }
  for (const { holders, counter } of clients) for (const each of [...holders, counter]) each.isOver = true
  await Promise.all(running)
  const counts = { committed: 0, lost: 0, unknown: 0 }
  for (const { cellId, holders, counter } of clients) {
    const { rows } = await node.service.execute(cellId, {
      op: 'sql',
      sql: 'SELECT transaction_id AS id, count(*) AS n FROM t GROUP BY 1',
    })
    const found = new Map((rows as { id: string; n: number }[]).map(({ id, n }) => [id, n]))
    let whole = 0
    for (const [id, outcome] of holders.flatMap(({ outcomes }) => [...outcomes])) {
      counts[outcome]++
      const n = found.get(id) ?? 0
      expect(outcome === 'committed' ? [ROWS] : outcome === 'lost' ? [0] : [0, ROWS]).toContain(n)
      if (n > 0) whole++
    }
    expect(found.size).toBe(whole)
    const value = async (key: string) => (await node.service.execute(cellId, { op: 'kv.get', key }))?.value
    expect([await value('n'), await value('held')]).toEqual([String(counter.acknowledged), String(whole)])
  }
  expect(counts.committed).toBeGreaterThan(0)
  expect(counts.unknown).toBe(0)
  console.info(`${KILLS} workers killed: ${JSON.stringify(counts)}`)
})

test('a killed worker takes its holds along: what names one is refused, and what waited for its end runs', async () => {
  const node = await openWorkerStore({ service: { ...service, workers: 1 } })
  const cellId = await newCell(node)
  const execute = (operation: CellOperation) => node.service.execute(cellId, operation)
  const insert = { op: 'sql', sql: 'INSERT INTO t VALUES (1, 1)' } as const
  const hold = { id: randomUUID(), isOpen: true }
  await execute({ op: 'hold', step: 'begin', hold: { ...hold, isOpen: false } })
  await execute({ ...insert, hold })
  const waiting = [execute(insert), execute({ op: 'kv.incr', key: 'n' })]
  // It has been sent, and has come back.
  expect(await execute({ op: 'kv.get', key: 'n' })).toBeUndefined()
  for (const pid of node.workers) process.kill(pid, 'SIGKILL')
  await Promise.all(waiting)
  expect((await rejectedBy(execute({ ...insert, hold }))).code).toBe('transaction_lost')
  expect((await rejectedBy(execute({ op: 'hold', step: 'commit', hold }))).code).toBe('transaction_lost')
  const { rows } = (await execute({ op: 'sql', sql: 'SELECT count(*) AS n FROM t' })) as { rows: unknown[] }
  expect(rows).toEqual([{ n: 1 }])
})

test('who begins a transaction beside the COMMIT of one that others wait for waits as they do, and is not refused', async () => {
  const node = await openWorkerStore({ service: { ...service, workers: 1 } })
  const cellId = await newCell(node)
  const execute = (operation: CellOperation) => node.service.execute(cellId, operation)
  const newHold = () => ({ id: randomUUID(), isOpen: true })
  const [first, second] = [newHold(), newHold()]
  const begin = (hold: OperationHold) =>
    execute({ op: 'hold', step: 'begin', hold: { ...hold, isOpen: false } })
  const commit = (hold: OperationHold) => execute({ op: 'hold', step: 'commit', hold })
  await begin(first)
  const waits = execute({ op: 'kv.incr', key: 'n' })
  // It has been sent, and has come back.
  expect(await execute({ op: 'kv.get', key: 'n' })).toBeUndefined()
  await Promise.all([commit(first), begin(second)])
  await commit(second)
  expect(await waits).toMatchObject({ value: 1 })
})

test('a hold that nobody ends is over after its time, and the operations of neighbours and of its own cell that waited go on', async () => {
  const bounds = { ...BOUNDS, holds: { timeoutMs: 500, idleMs: 60_000, perAccount: 100, total: 100 } }
  const node = await openWorkerStore({ service: { workers: 1, bounds } })
  const [cellId, neighbour] = [await newCell(node), await newCell(node)]
  const insert = { op: 'sql', sql: 'INSERT INTO t VALUES (1, 1)' } as const
  const hold = { id: randomUUID(), isOpen: true }
  await node.service.execute(cellId, { op: 'hold', step: 'begin', hold: { ...hold, isOpen: false } })
  await node.service.execute(cellId, { ...insert, hold })
  let isOver = false
  const waiting = Promise.all(Array.from({ length: 200 }, () => node.service.execute(cellId, insert))).then(
    () => {
      isOver = true
    },
  )
  let neighbours = 0
  while (!isOver) {
    await node.service.execute(neighbour, insert)
    neighbours++
  }
  await waiting
  expect(neighbours).toBeGreaterThan(10)
  const late = node.service.execute(cellId, { ...insert, hold })
  expect(await rejectedBy(late)).toMatchObject({ code: 'transaction_timeout', details: { limit: 500 } })
  const { rows } = await node.service.execute(cellId, { op: 'sql', sql: 'SELECT count(*) AS n FROM t' })
  expect(rows).toEqual([{ n: 200 }])
})

test('a statement that runs too long in a hold ends its worker, and with it the hold', async () => {
  const node = await openWorkerStore({
    service: { ...service, bounds: { ...BOUNDS, holds, statementMsMax: 300 } },
  })
  const cellId = await newCell(node)
  const hold = { id: randomUUID(), isOpen: true }
  await node.service.execute(cellId, { op: 'hold', step: 'begin', hold: { ...hold, isOpen: false } })
  const endless = {
    op: 'sql',
    sql: 'WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c) SELECT count(*) FROM c',
    hold,
  } as const
  expect((await rejectedBy(node.service.execute(cellId, endless))).code).toBe('statement_timeout')
  const after = node.service.execute(cellId, { op: 'sql', sql: 'INSERT INTO t VALUES (1, 1)', hold })
  expect((await rejectedBy(after)).code).toBe('transaction_lost')
})

test('accounts that hold as many cells as they can, and never end a hold, keep nobody else from transactions', async () => {
  const bounds = { ...BOUNDS, holds: { timeoutMs: 60_000, idleMs: 60_000, perAccount: 4, total: 24 } }
  const node = await openWorkerStore({ service: { workers: 1, bounds } })
  const begin = async (cellId: string) => {
    const hold = { id: randomUUID(), isOpen: true }
    await node.service.execute(cellId, { op: 'hold', step: 'begin', hold: { ...hold, isOpen: false } })
    return hold
  }
  const cellOf = (accountId: string) => node.store.createCell({ accountId }).id
  for (let i = 0; i < 12; i++) {
    const { id } = node.store.accounts.create({ name: `Account ${i}` })
    const begun = await Promise.allSettled(Array.from({ length: 6 }, () => begin(cellOf(id))))
    for (const each of begun)
      if (each.status === 'rejected')
        expect(each.reason).toMatchObject({ code: 'busy', details: { limit: 4 } })
  }
  const { id: mine } = node.store.accounts.create({ name: 'Neighbour' })
  for (let i = 0; i < 10; i++) {
    const cellId = cellOf(mine)
    const hold = await begin(cellId)
    await node.service.execute(cellId, { op: 'kv.put', key: 'k', value: 'v', hold })
    await node.service.execute(cellId, { op: 'hold', step: 'commit', hold })
    expect(await node.service.execute(cellId, { op: 'kv.get', key: 'k' })).toMatchObject({ value: 'v' })
  }
})
