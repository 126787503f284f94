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

/** Statements of these cells were short until now, so that they share a worker. */
async function runShort(node: ScriptedWorkers, cells: number): Promise<void> {
  for (let n = 0; n < cells; n++) node.sql(cellOf(n), 'short', mine)
  await node.settle()
  node.busy.answer(Object.fromEntries(Array.from({ length: cells }, (_, n) => [n, 'done'])))
  node.busy.say({ type: 'done' })
}

test('an account whose many cells end one worker after the other is told to wait with whatever would run in a shared worker; its neighbours and its isolated cells go on', async () => {
  const node = await ScriptedWorkers.started()
  await runShort(node, KILLS_BURST + 2)
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
  expect(() => node.sql(cellOf(KILLS_BURST), 'one more', mine)).toThrow(
    expect.objectContaining({ code: 'rate_limited' }),
  )
  expect(() => node.put(A, 'put', mine)).toThrow(expect.objectContaining({ code: 'rate_limited' }))
  node.sql(cellOf(0), 'isolated', mine)
  node.sql(B, 'of another account')
  await node.pass(25_000)
  node.sql(cellOf(KILLS_BURST + 1), 'after a while', mine)
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

/** Each of the cells has a slow statement that holds up the neighbour, one after the other. */
async function isolate(node: ScriptedWorkers, cells: [n: number, accountId: string][]): Promise<void> {
  for (const [n, accountId] of cells) node.sql(cellOf(n), `slow ${n}`, { accountId })
  node.sql(B, 'neighbour')
  await node.settle()
  for (let kill = 0; kill < cells.length; kill++) await holdUp(node)
  const shared = node.asked.find(({ given }) => given.includes('neighbour'))
  shared?.answer({ 0: 'neighbour' })
  shared?.say({ type: 'done' })
}

const isolatedWorkers = (node: ScriptedWorkers) =>
  node.asked.filter(({ given, isStopped }) => given[0]?.startsWith('slow') === true && !isStopped)

test('a worker for isolated cells that becomes free goes to the account that has waited, not to the next cell of the same one', async () => {
  const node = await ScriptedWorkers.started()
  await isolate(node, [
    [1, 'a'],
    [2, 'b'],
  ])
  await isolate(node, [[3, 'a']])
  await isolate(node, [[4, 'c']])
  expect(isolatedWorkers(node).map(({ given }) => given)).toEqual([['slow 1'], ['slow 2']])
  const [first] = isolatedWorkers(node)
  if (first === undefined) throw new Error('No cell is isolated')
  first.answer({ 0: 'done' })
  first.say({ type: 'done' })
  await node.pass(200)
  expect(first.isStopped).toBe(true)
  await node.end(first)
  expect(isolatedWorkers(node).map(({ given }) => given)).toContainEqual(['slow 4'])
})

test('an isolated cell that is busy without a pause gives its worker up after its turn, if another account has none', async () => {
  const node = await ScriptedWorkers.started()
  await isolate(node, [
    [1, 'a'],
    [2, 'b'],
    [3, 'c'],
  ])
  const busy = isolatedWorkers(node)
  for (const worker of busy) worker.say({ type: 'started', index: 0 })
  await node.pass(4_000)
  expect(busy.map(({ isStopped }) => isStopped)).toEqual([false, false])
  await node.pass(2_000)
  expect(busy.map(({ isStopped }) => isStopped)).toEqual([true, true])
  for (const worker of busy) await node.end(worker)
  expect(isolatedWorkers(node).map(({ given }) => given)).toContainEqual(['slow 3'])
})

test('upkeep of an account that cost too many workers is not refused, but runs where it holds up nobody', async () => {
  const node = await ScriptedWorkers.started({ record })
  await runShort(node, KILLS_BURST + 1)
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

test('an account with several slow cells has its next ones tried in a worker of their own, before one of them costs a shared worker', async () => {
  const node = await ScriptedWorkers.started()
  for (let n = 0; n < 40; n++) node.sql(cellOf(n), `slow ${n}`, mine)
  node.sql(B, 'neighbour')
  await node.settle()
  for (let kill = 0; kill < 3; kill++) await holdUp(node)
  const shared = node.asked.find(({ given }) => given.includes('neighbour'))
  expect(shared?.given).toEqual(['neighbour'])
  expect(() => node.sql(cellOf(41), 'slow 41', mine)).not.toThrow()
  node.put(cellOf(42), 'put', mine)
  shared?.say({ type: 'done' })
  await node.settle()
  expect(shared?.given).toEqual(['put'])
  expect(node.all.filter(({ isKilled }) => isKilled)).toHaveLength(3)
})

test('a cell on trial shares a worker once its statements have turned out to be short; a slow one is tried again', async () => {
  const node = await ScriptedWorkers.started()
  await isolate(node, [
    [1, 'mine'],
    [2, 'mine'],
    [3, 'mine'],
  ])
  for (let n = 4; n < 9; n++) node.sql(cellOf(n), `slow ${n}`, mine)
  const trial = async (ms: number) => {
    const worker = isolatedWorkers(node)[0] as ScriptedWorker
    const [cellId] = worker.batches[0]?.cells.map((cell) => cell.cellId) ?? []
    worker.answer({ 0: 'done' })
    worker.say({ type: 'done', spent: [[0, ms]] })
    await node.pass(200)
    await node.end(worker)
    return cellId as string
  }
  const slow = await trial(HOLD_MS + 1)
  const short = await trial(HOLD_MS)
  node.sql(slow, 'again', mine)
  node.sql(short, 'short', mine)
  await node.settle()
  expect(node.asked.flatMap(({ given }) => given)).not.toContain('again')
  expect(node.asked.flatMap(({ given }) => given)).toContain('short')
})

test('a cell that the shared worker may have open is not tried elsewhere (invariant 2)', async () => {
  const node = await ScriptedWorkers.started()
  await isolate(node, [
    [1, 'mine'],
    [2, 'mine'],
    [3, 'mine'],
  ])
  node.put(cellOf(4), 'put', mine)
  await node.settle()
  node.sql(cellOf(4), 'SELECT 1', mine)
  const shared = node.busy
  expect(shared.given).toEqual(['put'])
  shared.say({ type: 'done' })
  await node.settle()
  expect(shared.given).toEqual(['SELECT 1'])
})
