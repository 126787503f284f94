import { expect, test, vi } from 'vitest'
import type { ChangeStream } from '../../src/store/watch/change-stream.ts'
import { countOf } from '../support/counts.ts'
import { seededRandom } from '../support/seed.ts'
import { until } from '../support/until.ts'
import { openWorkerStore, type WorkerStore } from '../support/worker-store.ts'
import { untilHeldUp } from '../support/workers/held-up.ts'

const KILLS = countOf('CELLSTORE_WORKER_KILLS')

vi.setConfig({ testTimeout: 180_000 + KILLS * 5_000 })

/** Somebody who watches a cell, and what was heard. */
class Watcher {
  readonly heard = new Set<string>()
  resets = 0
  /** How many resets there were when a key was about to be put. */
  readonly #resetsBefore = new Map<string, number>()
  readonly #stream: ChangeStream
  readonly #ended: Promise<void>

  constructor(stream: ChangeStream) {
    this.#stream = stream
    this.#ended = this.#listen()
    // Where the test fails, the store is closed under it.
    this.#ended.catch(() => {})
  }

  async #listen(): Promise<void> {
    for await (const change of this.#stream) {
      if (change.type === 'reset') this.resets++
      else
        for (const key of change.keys ?? []) {
          expect(this.heard).not.toContain(key)
          this.heard.add(key)
        }
    }
  }

  put(key: string): void {
    this.#resetsBefore.set(key, this.resets)
  }

  /** Of the keys that were put, those of which nothing told. */
  get missed(): string[] {
    return [...this.#resetsBefore]
      .filter(([key, resets]) => !this.heard.has(key) && this.resets === resets)
      .map(([key]) => key)
  }

  async close(): Promise<void> {
    await this.#stream.return()
    await this.#ended
  }
}

async function watch(node: WorkerStore, id: string): Promise<Watcher> {
  return new Watcher(await node.service.watch(id))
}

test.each([
  ['one cell', 1],
  ['many cells', 8],
])(
  `workers are killed at any instant under writes to %s: whoever watches hears once of each acknowledged commit, or of a reset after it began (${KILLS} kills)`,
  async (_what, count) => {
    const random = seededRandom()
    const node = await openWorkerStore({ service: { workers: 2 } })
    const cells = Array.from({ length: count }, () => node.store.createCell().id)
    const watchers = await Promise.all(cells.map((id) => watch(node, id)))
    let puts = 0
    let isOver = false
    const write = async (): Promise<void> => {
      while (!isOver) {
        const key = `k${puts++}`
        await Promise.all(
          cells.map(async (id, i) => {
            const watcher = watchers[i] as Watcher
            watcher.put(key)
            await node.service.execute(id, { op: 'kv.put', key, value: 'v' })
          }),
        )
      }
    }
    const writers = [write(), write(), write()]
    for (let kill = 0; kill < KILLS; kill++) {
      const goal = puts + random.below(20)
      await until(() => puts > goal && node.workers.length >= 2, 'the writers get on')
      await new Promise((resolve) => setTimeout(resolve, random.below(20)))
      process.kill(random.pick(node.workers), 'SIGKILL')
    }
    isOver = true
    await Promise.all(writers)
    for (const watcher of watchers) {
      await until(() => watcher.missed.length === 0, 'nothing acknowledged is missed')
      expect(watcher.heard.size).toBeGreaterThan(0)
      await watcher.close()
    }
    expect(watchers.reduce((sum, { resets }) => sum + resets, 0)).toBeGreaterThan(count)
  },
)

test('a cell that moves to another worker is watched there', async () => {
  const node = await openWorkerStore({ service: { workers: 1, limits: { blockMs: 50 } } })
  const { id } = node.store.createCell()
  const neighbour = node.store.createCell().id
  const watcher = await watch(node, id)
  const count =
    'WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT ?) SELECT count(*) FROM n'
  await untilHeldUp(
    node,
    () => node.service.execute(neighbour, { op: 'kv.put', key: 'x', value: 'y' }),
    (rows) => node.service.execute(id, { op: 'sql', sql: count, params: [rows] }),
  )
  for (let i = 0; i < 20; i++) {
    watcher.put(`k${i}`)
    await node.service.execute(id, { op: 'kv.put', key: `k${i}`, value: 'v' })
  }
  await until(() => watcher.heard.has('k19'), 'the last commit is heard of')
  expect(watcher.missed).toEqual([])
  await watcher.close()
})
