import fs from 'node:fs'
import path from 'node:path'
import { expect, test, vi } from 'vitest'
import type { CellOperation } from '../../src/service/operations.ts'
import { countOf } from '../support/counts.ts'
import { seededRandom } from '../support/seed.ts'
import { filesBelow } from '../support/temp-directory.ts'
import { until } from '../support/until.ts'
import { openWorkerStore, type WorkerStore } from '../support/worker-store.ts'

const KILLS = countOf('CELLSTORE_WORKER_KILLS')
const MIB = 1_048_576

vi.setConfig({ testTimeout: 180_000 + KILLS * 5_000 })

/** Writers that count in each of some cells. Whatever happens to workers, each of their operations is answered. */
class Counters {
  readonly #node: WorkerStore
  readonly #cells: readonly string[]
  /** Increments of each cell. */
  acknowledged = 0
  isOver = false

  constructor(node: WorkerStore, cells: readonly string[]) {
    this.#node = node
    this.#cells = cells
  }

  async run(): Promise<void> {
    const { service } = this.#node
    const incr = { op: 'kv.incr', key: 'n' } as const
    const update = { op: 'sql', sql: 'UPDATE t SET n = n + 1' } as const
    const operations: CellOperation[] = [incr, update, { op: 'batch', operations: [incr, update] }]
    while (!this.isOver) {
      const all = this.#cells.flatMap((id) => operations.map((operation) => service.execute(id, operation)))
      await Promise.all(all)
      this.acknowledged += 2
    }
  }
}

test.each([
  ['one cell', 1],
  ['many cells', 12],
])(
  `workers are killed at any instant under writes to %s: every operation is still acknowledged, and done exactly once (invariants 1, 8; ${KILLS} kills)`,
  async (_what, count) => {
    const random = seededRandom()
    const node = await openWorkerStore({ service: { workers: 2 } })
    const cells = Array.from({ length: count }, () => node.store.createCell().id)
    for (const id of cells) {
      await node.service.execute(id, { op: 'sql', sql: 'CREATE TABLE t (n)' })
      await node.service.execute(id, { op: 'sql', sql: 'INSERT INTO t VALUES (0)' })
    }
    const counters = new Counters(node, cells)
    const writers = [counters.run(), counters.run()]
    for (let kill = 0; kill < KILLS; kill++) {
      const goal = counters.acknowledged + 2 * random.below(6)
      await until(() => counters.acknowledged > goal && node.workers.length >= 2, 'the writers get on')
      await new Promise((resolve) => setTimeout(resolve, random.below(20)))
      process.kill(random.pick(node.workers), 'SIGKILL')
    }
    counters.isOver = true
    await Promise.all(writers)
    const { acknowledged } = counters
    for (const id of cells) {
      const entry = await node.service.execute(id, { op: 'kv.get', key: 'n' })
      const { rows } = await node.service.execute(id, { op: 'sql', sql: 'SELECT n FROM t' })
      expect([entry?.value, rows]).toEqual([String(acknowledged), [{ n: acknowledged }]])
    }
    console.info(`${KILLS} workers killed, ${acknowledged} increments of each of ${count} cells acknowledged`)
  },
)

test('a backup and a restore whose worker is ended again and again in between are finished, and what was left of them is removed', async () => {
  const node = await openWorkerStore({ service: { limits: { blockMs: 60_000 } } })
  const { service, store } = node
  const { id } = store.createCell()
  await service.execute(id, { op: 'sql', sql: 'CREATE TABLE t (b)' })
  for (let part = 0; part < 24; part++)
    await service.execute(id, { op: 'sql', sql: `INSERT INTO t VALUES (randomblob(${MIB}))` })
  const sum = { op: 'sql', sql: 'SELECT count(*) AS n, sum(unicode(hex(b))) AS sum FROM t' } as const
  const { rows } = await service.execute(id, sum)
  const spool = path.join(node.directory, 'spool')
  let kills = 0
  const killOnce = (phase: string) => (event: { phase: string }) => {
    if (event.phase !== phase || kills >= 2) return
    kills++
    // The one at work. To end the one in reserve as well would use up two of the five tries each time.
    process.kill(node.workers[0] as number, 'SIGKILL')
  }
  const { version } = await service.backups.snapshot(id, { onProgress: killOnce('read') })
  expect(kills).toBe(2)
  await service.execute(id, { op: 'sql', sql: 'DELETE FROM t' })
  kills = 0
  await service.backups.restore(id, { version, onProgress: killOnce('download') })
  expect(kills).toBe(2)
  expect((await service.execute(id, sum)).rows).toEqual(rows)
  await expect.poll(() => (fs.existsSync(spool) ? filesBelow(spool) : [])).toEqual([])
  expect(filesBelow(node.directory).filter((file) => file.includes('incoming'))).toEqual([])
})
