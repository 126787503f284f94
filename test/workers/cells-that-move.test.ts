import fs from 'node:fs'
import { expect, test } from 'vitest'
import { until } from '../support/until.ts'
import { openWorkerStore, type WorkerStore } from '../support/worker-store.ts'

const AWAY_MS = 500
const ROUNDS = 4
/** Far longer than a statement may hold up others here. */
const SLOW =
  'WITH RECURSIVE r(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM r LIMIT 300000) SELECT count(*) FROM r'

/** The processes that have a cell's database open. */
function workersWith(node: WorkerStore, cellId: string): number[] {
  return node.workers.filter((pid) => {
    try {
      return fs.readdirSync(`/proc/${pid}/fd`).some((fd) => {
        const target = fs.readlinkSync(`/proc/${pid}/fd/${fd}`)
        return target.includes(cellId) && target.endsWith('.db')
      })
    } catch {
      return false // It has just ended.
    }
  })
}

function accountWithCells(node: WorkerStore, count: number): string[] {
  const { id: accountId } = node.store.accounts.create()
  return Array.from({ length: count }, () => node.store.createCell({ accountId }).id)
}

/** Somebody whom the others could hurt: one small operation after the other. */
function keepAsking(node: WorkerStore, cellId: string): () => Promise<void> {
  let isOver = false
  const asking = (async () => {
    while (!isOver) {
      await node.service.execute(cellId, { op: 'kv.incr', key: 'n' })
      await new Promise((resolve) => setTimeout(resolve, 5))
    }
  })()
  return async () => {
    isOver = true
    await asking
  }
}

test('an account whose statement holds up a neighbour costs it one worker, whatever it does later; its backups go on in the slow worker', async () => {
  const node = await openWorkerStore()
  const { service } = node
  const [neighbour] = accountWithCells(node, 1) as [string]
  const stop = keepAsking(node, neighbour)
  const cells = accountWithCells(node, 3)
  const [cell, other, waiting] = cells as [string, string, string]
  await service.execute(cell, { op: 'kv.put', key: 'k', value: 'first' })
  const { version } = await service.backups.snapshot(cell)
  await service.execute(cell, { op: 'kv.put', key: 'k', value: 'second' })
  const isKilled = () => node.lostWorkers.length > 0
  for (let tries = 0; !isKilled() && tries < 10; tries++)
    await service.execute(other, { op: 'sql', sql: SLOW })
  expect(node.lostWorkers.map(({ fields }) => fields['reason'])).toEqual(['held-up'])
  const [home] = workersWith(node, neighbour)
  for (const id of cells) {
    await Promise.all([
      ...Array.from({ length: 2 }, () => service.execute(id, { op: 'sql', sql: SLOW })),
      service.execute(waiting, { op: 'kv.put', key: 'k', value: 'v' }),
    ])
    expect(workersWith(node, id)).not.toContain(home)
  }
  expect(await service.backups.incremental(cell)).toMatchObject({
    kind: 'incremental',
    baseVersion: version,
  })
  await service.backups.restore(cell, { version })
  expect(await service.execute(cell, { op: 'kv.get', key: 'k' })).toMatchObject({ value: 'first' })
  expect(workersWith(node, neighbour)).toEqual([home])
  expect(node.lostWorkers).toHaveLength(1)
  await stop()
})

test('cells that move to and fro under writes and kills lose nothing, and do nothing twice (invariants 1, 2, 8)', async () => {
  const limits = { slowWorkerMs: AWAY_MS, killsPerMinute: 1_000, killsBurst: 1_000 }
  const node = await openWorkerStore({ service: { workers: 1, limits } })
  const { service } = node
  const [neighbour] = accountWithCells(node, 1) as [string]
  const stop = keepAsking(node, neighbour)
  const cells = accountWithCells(node, 4)
  const [slow] = cells as [string]
  let done = 0
  let isOver = false
  const seen = new Set<number>()
  const write = async () => {
    while (!isOver) {
      await Promise.all(cells.map((id) => service.execute(id, { op: 'kv.incr', key: 'n' })))
      for (const pid of workersWith(node, cells[1] as string)) seen.add(pid)
      done++
    }
  }
  const writing = [write(), write()]
  for (let round = 0; round < ROUNDS; round++) {
    const goal = done + 20
    await service.execute(slow, { op: 'sql', sql: SLOW })
    await until(() => done > goal, 'the writers get on')
    await new Promise((resolve) => setTimeout(resolve, AWAY_MS))
    process.kill(node.workers[round % node.workers.length] as number, 'SIGKILL')
  }
  isOver = true
  await Promise.all(writing)
  await stop()
  for (const id of cells)
    expect(await service.execute(id, { op: 'kv.get', key: 'n' })).toMatchObject({ value: String(done) })
  expect(seen.size).toBeGreaterThan(1)
})
