import fs from 'node:fs'
import { expect, test } from 'vitest'
import { until } from '../support/until.ts'
import { openWorkerStore, type WorkerStore } from '../support/worker-store.ts'
import { untilHeldUp } from '../support/workers/held-up.ts'

const AWAY_MS = 500
const ROUNDS = 4
const COUNT = 'WITH RECURSIVE r(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM r LIMIT ?) SELECT count(*) FROM r'

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

/** Runs statements on a cell until one has held up a neighbour. @returns the rows that it counted */
function holdUp(node: WorkerStore, cellId: string, neighbour: string): Promise<number> {
  return untilHeldUp(
    node,
    () => node.service.execute(neighbour, { op: 'kv.incr', key: 'n' }),
    (rows) => node.service.execute(cellId, { op: 'sql', sql: COUNT, params: [rows] }),
  )
}

test('an account whose statement holds up a neighbour costs it one worker, whatever it does later; its backups go on in the slow worker', async () => {
  const node = await openWorkerStore()
  const { service } = node
  const [neighbour] = accountWithCells(node, 1) as [string]
  const cells = accountWithCells(node, 3)
  const [cell, other, waiting] = cells as [string, string, string]
  await service.execute(cell, { op: 'kv.put', key: 'k', value: 'first' })
  const { version } = await service.backups.snapshot(cell)
  await service.execute(cell, { op: 'kv.put', key: 'k', value: 'second' })
  const rows = await holdUp(node, other, neighbour)
  const slow = { op: 'sql', sql: COUNT, params: [rows] } as const
  expect(node.lostWorkers.map(({ fields }) => fields['reason'])).toEqual(['held-up'])
  const [home] = workersWith(node, neighbour)
  for (const id of cells) {
    await Promise.all([
      ...Array.from({ length: 2 }, () => service.execute(id, slow)),
      service.execute(neighbour, { op: 'kv.incr', key: 'n' }),
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
})

test('cells that move to and fro under writes and kills lose nothing, and do nothing twice (invariants 1, 2, 8)', async () => {
  const limits = { slowWorkerMs: AWAY_MS, killsPerMinute: 1_000, killsBurst: 1_000 }
  const node = await openWorkerStore({ service: { workers: 1, limits } })
  const { service } = node
  const [neighbour] = accountWithCells(node, 1) as [string]
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
    await holdUp(node, slow, neighbour)
    await until(() => done > goal, 'the writers get on')
    await new Promise((resolve) => setTimeout(resolve, AWAY_MS))
    process.kill(node.workers[round % node.workers.length] as number, 'SIGKILL')
  }
  isOver = true
  await Promise.all(writing)
  for (const id of cells)
    expect(await service.execute(id, { op: 'kv.get', key: 'n' })).toMatchObject({ value: String(done) })
  expect(seen.size).toBeGreaterThan(1)
})
