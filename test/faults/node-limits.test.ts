import { expect, test, vi } from 'vitest'
import { type ServedNode, Workplace } from '../support/cli/workplace.ts'
import { countOf } from '../support/counts.ts'
import { HttpWriters } from '../support/faults/http-writers.ts'
import { checkIntegrity } from '../support/integrity.ts'
import { seededRandom } from '../support/seed.ts'
import { until } from '../support/until.ts'

const CELLS = countOf('CELLSTORE_DESCRIPTOR_CELLS')
const DESCRIPTORS = 256
const CLIENTS = 16

vi.setConfig({ testTimeout: 180_000 + CELLS * 200 })

const WORKERS = [
  ['with two workers', '2'],
  ['in one process', '0'],
] as const

test.each(WORKERS)(
  `a node %s that may have ${DESCRIPTORS} files open serves ${CELLS} cells, and no client sees the bound`,
  async (_how, workers) => {
    const random = seededRandom()
    const place = new Workplace()
    const node = await place.serveWithDescriptors(DESCRIPTORS, '--workers', workers)
    const ids: string[] = []
    await side(CLIENTS, CELLS, async () => {
      ids.push(String((await okay(node, 'POST', '/v1/databases'))['id']))
    })
    await side(CLIENTS, CELLS, async (i) => {
      await okay(node, 'PUT', `/v1/databases/${ids[i]}/kv/k`, { value: String(i) })
    })
    await side(CLIENTS, CELLS, async () => {
      const i = random.below(CELLS)
      expect(await okay(node, 'GET', `/v1/databases/${ids[i]}/kv/k`)).toMatchObject({ value: String(i) })
    })
    await okay(node, 'POST', `/v1/databases/${random.pick(ids)}/backup`)
    expect((await node.request('GET', '/readyz')).status).toBe(200)
    expect(node.stderr).not.toMatch(/EMFILE|CANTOPEN/)
    await node.stop('SIGKILL')

    const started = performance.now()
    const again = await place.serveWithDescriptors(DESCRIPTORS, '--workers', workers)
    console.info(
      `--workers ${workers}: ${CELLS} cells served again after ${Math.round(performance.now() - started)} ms`,
    )
    await side(CLIENTS, CELLS, async (i) => {
      const { body } = await again.request('GET', `/v1/databases/${ids[i]}/kv/k`, undefined, node.key)
      expect(body).toMatchObject({ value: String(i) })
    })
    expect(await again.stop()).toEqual([0, null])
    checkIntegrity(place.dataDir)
  },
)

test.each(WORKERS)(
  'SIGTERM under load ends a node %s with 0, and every answered write is there (invariant 1)',
  async (_how, workers) => {
    const random = seededRandom()
    const place = new Workplace()
    let node = await place.serve('--workers', workers)
    const writers = await HttpWriters.create(node, 3)
    for (let round = 0; round < 3; round++) {
      const stop = writers.start(node, 4, random)
      await acknowledged(writers, 50 + random.below(100))
      expect(await node.stop()).toEqual([0, null])
      await stop()
      checkIntegrity(place.dataDir)
      node = await place.serve('--workers', workers)
      await writers.check(node)
    }
    const { 500: errors = 0 } = writers.statuses
    expect(errors).toBe(0)
  },
)

test('a second node on the directory of one that is under load is refused with its pid, and costs it nothing (invariant 2)', async () => {
  const random = seededRandom()
  const place = new Workplace()
  const node = await place.serve('--workers', '2')
  const writers = await HttpWriters.create(node, 3)
  const stop = writers.start(node, 4, random)
  await acknowledged(writers, 20)
  for (const workers of ['0', '2']) {
    const { code, stderr } = await place.run('serve', '--port', '0', '--workers', workers)
    expect(code).not.toBe(0)
    expect(stderr).toContain(`in use by process ${node.pid}`)
  }
  await acknowledged(writers, 20)
  await stop()
  expect(Object.keys(writers.statuses)).toEqual(['200'])
  await writers.check(node)
  expect(await node.stop()).toEqual([0, null])
  checkIntegrity(place.dataDir)
})

/** Resolves once so many more writes were acknowledged. */
async function acknowledged(writers: HttpWriters, more: number): Promise<void> {
  const goal = writers.acknowledged + more
  await until(() => writers.acknowledged >= goal, 'more is acknowledged')
}

/** Does something so many times, some of them at once. */
async function side(clients: number, times: number, work: (i: number) => Promise<void>): Promise<void> {
  let next = 0
  await Promise.all(
    Array.from({ length: clients }, async () => {
      while (next < times) await work(next++)
    }),
  )
}

async function okay(node: ServedNode, method: string, route: string, body?: unknown) {
  const answer = await node.request(method, route, body)
  if (answer.status >= 300)
    throw new Error(`${method} ${route}: ${answer.status} ${JSON.stringify(answer.body)}`)
  return answer.body
}
