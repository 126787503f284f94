import { expect, test } from 'vitest'
import type { CellRecord } from '../../../src/catalog/cell-registry.ts'
import type { ScriptedWorker } from '../../support/workers/scripted-worker.ts'
import { A, B, HOLD_MS, KILLS_BURST, ScriptedWorkers } from '../../support/workers/scripted-workers.ts'

const cellOf = (n: number) => n.toString(16).padStart(8, '0') + A.slice(8)
const mine = { accountId: 'mine' }
/** Its task has no operation that says so. */
const record = () => ({ accountId: 'mine' }) as CellRecord

/** The first slow statement of the shared worker holds up the neighbour, and is ended. */
async function holdUp(node: ScriptedWorkers): Promise<void> {
  const shared = node.asked.find(({ given }) => given.includes('neighbour')) as ScriptedWorker
  shared.say({ type: 'started', index: shared.given.findIndex((text) => text.startsWith('slow')) })
  await node.pass(HOLD_MS + 20)
  expect(shared.isKilled).toBe(true)
  await node.end(shared)
}

test('an account whose many cells end one worker after the other is told to wait with whatever would run in a shared worker; its neighbours and its isolated cells go on', async () => {
  const node = await ScriptedWorkers.started()
  const slow = Array.from({ length: KILLS_BURST + 2 }, (_, n) => node.sql(cellOf(n), `slow ${n}`, mine))
  node.sql(B, 'neighbour')
  await node.settle()
  for (let kill = 0; kill <= KILLS_BURST; kill++) await holdUp(node)
  const refused = slow.map(({ error }) => error?.code)
  // The last one waited, and would have cost one more.
  expect(refused).toEqual([...Array(KILLS_BURST).fill(undefined), 'rate_limited', 'rate_limited'])
  expect(slow[KILLS_BURST]?.error).toMatchObject({
    details: { limit: KILLS_BURST, retryAfterMs: expect.any(Number) },
  })
  expect(() => node.sql(A, 'one more', mine)).toThrow(expect.objectContaining({ code: 'rate_limited' }))
  expect(() => node.put(A, 'put', mine)).toThrow(expect.objectContaining({ code: 'rate_limited' }))
  node.sql(cellOf(0), 'isolated', mine)
  node.sql(B, 'of another account')
  await node.pass(25_000)
  node.sql(A, 'after a while', mine)
  node.put(A, 'put', mine)
})

test('an account has a share of the workers for isolated cells, so that the cell of another one finds one', async () => {
  const node = await ScriptedWorkers.started()
  for (const n of [1, 2]) node.sql(cellOf(n), `slow ${n}`, mine)
  node.sql(cellOf(3), 'slow 3', { accountId: 'yours' })
  node.sql(B, 'neighbour')
  await node.settle()
  for (let kill = 0; kill < 3; kill++) await holdUp(node)
  const isolated = node.asked.map(({ given }) => given).filter(([first]) => first?.startsWith('slow'))
  expect(isolated.toSorted()).toEqual([['slow 1'], ['slow 3']])
})

test('upkeep of an account that cost too many workers is not refused, but runs where it holds up nobody', async () => {
  const node = await ScriptedWorkers.started({ record })
  for (let n = 0; n <= KILLS_BURST; n++) node.sql(cellOf(n), `slow ${n}`, mine)
  node.sql(B, 'neighbour')
  await node.settle()
  for (let kill = 0; kill < KILLS_BURST; kill++) await holdUp(node)
  void node.workers.runTask({ task: 'collect', cellId: A }).catch(() => {})
  void node.workers.runTask({ task: 'quarantine', cellId: A }).catch(() => {})
  await node.settle()
  const shared = node.asked.find(({ given }) => given.includes('neighbour'))
  expect(shared?.tasks).toEqual([])
})
