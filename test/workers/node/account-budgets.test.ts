import { expect, test } from 'vitest'
import type { CellRecord } from '../../../src/catalog/cell-registry.ts'
import type { WorkerPoolParts } from '../../../src/workers/node/dispatch/worker-pool.ts'
import type { ScriptedWorker } from '../../support/workers/scripted-worker.ts'
import { A, B, KILLS_BURST, ScriptedWorkers } from '../../support/workers/scripted-workers.ts'

const cellOf = (n: number) => n.toString(16).padStart(8, '0') + A.slice(8)
/** After so long an endless statement is ended. */
const ENDED_MS = 1_000
const mine = { accountId: 'mine' }
/** Its task has no operation that says so. */
const record = () => ({ accountId: 'mine' }) as CellRecord

/** A node on which a neighbour was active just now. */
async function busyNode(parts: Partial<WorkerPoolParts> = {}): Promise<ScriptedWorkers> {
  const node = await ScriptedWorkers.started(parts)
  node.put(B, 'neighbour')
  await node.settle()
  node.busy.answer({ 0: 'done' })
  node.busy.say({ type: 'done' })
  return node
}

/** An endless statement is ended at its deadline. */
async function runEndless(node: ScriptedWorkers): Promise<void> {
  const isEndless = (text: string) => text.startsWith('endless')
  const worker = node.asked.find(({ given }) => given.some(isEndless)) as ScriptedWorker
  worker.say({ type: 'started', index: worker.given.findIndex(isEndless) })
  await node.pass(ENDED_MS + 20)
  expect(worker.isKilled).toBe(true)
  await node.end(worker)
}

test('an account whose many cells end one worker after the other is told to wait, with all that waits there; its neighbours go on', async () => {
  const node = await busyNode()
  const short = { ...mine, statementMs: ENDED_MS }
  const endless = Array.from({ length: KILLS_BURST + 2 }, (_, n) =>
    node.sql(cellOf(n), `endless ${n}`, short),
  )
  await node.settle()
  for (let kill = 0; kill < KILLS_BURST; kill++) await runEndless(node)
  const refused = endless.map(({ error }) => error?.code)
  // These waited, and would have cost more.
  expect(refused).toEqual([...Array(KILLS_BURST).fill('statement_timeout'), 'rate_limited', 'rate_limited'])
  expect(endless[KILLS_BURST]?.error).toMatchObject({
    details: { limit: KILLS_BURST, retryAfterMs: expect.any(Number) },
  })
  for (const cellId of [cellOf(0), cellOf(KILLS_BURST), A]) expect(node.hasToWait(cellId, mine)).toBe(true)
  expect(node.hasToWait(B)).toBe(false)
  await node.pass(25_000)
  expect(node.hasToWait(A, mine)).toBe(false)
})

test('a cell that has cost its part of them is told to wait, and no other cell of its account', async () => {
  const node = await busyNode()
  node.sql(cellOf(0), 'endless', { ...mine, statementMs: ENDED_MS })
  const behind = node.sql(cellOf(0), 'behind', mine)
  await node.settle()
  await runEndless(node)
  expect(behind.error).toMatchObject({ code: 'rate_limited' })
  expect([0, 1].map((n) => node.hasToWait(cellOf(n), mine))).toEqual([true, false])
  await node.pass(31_000)
  expect(node.hasToWait(cellOf(0), mine)).toBe(false)
})

test('upkeep of an account that cost too many workers is not refused, but runs where it holds up no neighbour', async () => {
  const node = await busyNode({ record })
  node.sql(cellOf(0), 'endless', { ...mine, statementMs: ENDED_MS })
  await node.settle()
  await runEndless(node)
  const task = node.workers.runTask({ task: 'collect-expired', cellId: A })
  await node.settle()
  expect(node.busy.tasks.map(({ task }) => task)).toEqual([{ task: 'collect-expired', cellId: A }])
  expect(node.busy.yields).toBe(true)
  node.busy.reply('collect-expired', undefined)
  await task
})
