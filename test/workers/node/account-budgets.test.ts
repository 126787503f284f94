import { expect, test } from 'vitest'
import type { CellRecord } from '../../../src/catalog/cell-registry.ts'
import type { ScriptedWorker } from '../../support/workers/scripted-worker.ts'
import {
  A,
  B,
  HOLD_MS,
  ISOLATION_MS,
  KILLS_BURST,
  ScriptedWorkers,
} from '../../support/workers/scripted-workers.ts'

const cellOf = (n: number) => n.toString(16).padStart(8, '0') + A.slice(8)
const mine = { accountId: 'mine' }
/** Its task has no operation that says so. */
const record = () => ({ accountId: 'mine' }) as CellRecord

/** Slow statements begin. The one that holds up other cells costs its worker. */
async function holdUp(node: ScriptedWorkers): Promise<void> {
  const isSlow = (text: string) => text.startsWith('slow')
  const slow = node.asked.filter(({ given }) => given.some(isSlow))
  for (const worker of slow) worker.say({ type: 'started', index: worker.given.findIndex(isSlow) })
  await node.pass(HOLD_MS + 20)
  const killed = slow.filter(({ isKilled }) => isKilled)
  expect(killed).toHaveLength(1)
  await node.end(killed[0] as ScriptedWorker)
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

/** Each of the cells has a slow statement that holds up another cell of its account, one after the other. */
async function isolate(node: ScriptedWorkers, cells: [n: number, accountId: string][]): Promise<void> {
  for (const [n, accountId] of cells) {
    node.sql(cellOf(n), `slow ${n}`, { accountId })
    node.put(cellOf(100 + n), 'behind', { accountId })
    await node.settle()
    await holdUp(node)
    const shared = node.asked.find(({ given }) => given.includes('behind'))
    shared?.answer({ 0: 'done' })
    shared?.say({ type: 'done' })
  }
}

/** Workers that were given nothing but a slow statement. */
const isolatedWorkers = (node: ScriptedWorkers) =>
  node.asked.filter(({ given, isStopped }) => given[0]?.startsWith('slow') === true && !isStopped)

test('an account has a share of the workers for isolated cells, so that the cell of another one finds one', async () => {
  const node = await ScriptedWorkers.started()
  await isolate(node, [
    [1, 'mine'],
    [2, 'mine'],
    [3, 'yours'],
  ])
  expect(isolatedWorkers(node).map(({ given }) => given)).toEqual([['slow 1'], ['slow 3']])
})

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

test('the isolated cells of an account take turns, also if one of them is busy without a pause', async () => {
  const node = await ScriptedWorkers.started()
  await isolate(node, [
    [1, 'mine'],
    [2, 'mine'],
    [3, 'mine'],
  ])
  for (const text of ['slow 2', 'slow 3']) {
    const [busy] = isolatedWorkers(node)
    if (busy === undefined) throw new Error('No cell is isolated')
    busy.say({ type: 'started', index: 0 })
    await node.pass(4_000)
    expect(busy.isStopped).toBe(false)
    await node.pass(2_000)
    expect(busy.isStopped).toBe(true)
    await node.end(busy)
    expect(isolatedWorkers(node).map(({ given }) => given)).toEqual([[text]])
  }
})

test('an isolated cell that gets no worker for all of its time returns to the shared ones', async () => {
  const node = await ScriptedWorkers.started({ record })
  await isolate(node, [
    [1, 'mine'],
    [2, 'mine'],
  ])
  const task = node.workers.runTask({ task: 'collect', cellId: cellOf(2) })
  task.catch(() => {})
  const [busy] = isolatedWorkers(node)
  if (busy === undefined) throw new Error('No cell is isolated')
  busy.say({ type: 'started', index: 0 })
  const asked = () => node.asked.flatMap(({ tasks }) => tasks.map(({ task: { cellId } }) => cellId))
  await node.pass(ISOLATION_MS - 5_000)
  expect(asked()).toEqual([])
  // The worker of the busy cell does not end.
  await node.pass(6_000)
  expect(asked()).toEqual([cellOf(2)])
})

test('upkeep of an account that cost too many workers is not refused, but runs where it holds up no neighbour', async () => {
  const node = await ScriptedWorkers.started({ record })
  for (let n = 0; n <= KILLS_BURST; n++) node.sql(cellOf(n), `slow ${n}`, mine)
  node.sql(B, 'neighbour')
  await node.settle()
  for (let kill = 0; kill < KILLS_BURST; kill++) await holdUp(node)
  void node.workers.runTask({ task: 'collect', cellId: A }).catch(() => {})
  await node.settle()
  const shared = node.asked.find(({ given }) => given.includes('neighbour'))
  expect(shared?.tasks).toEqual([])
  expect(node.asked.flatMap(({ tasks }) => tasks.map(({ task }) => task))).toEqual([
    { task: 'collect', cellId: A },
  ])
})

test('upkeep of such an account starts only when the worker that has the cell open has closed it (invariant 2)', async () => {
  const node = await ScriptedWorkers.started({ record, count: 2 })
  node.put(A, 'put', mine)
  await node.settle()
  const { busy: first } = node
  first.answer({ 0: 'done' })
  first.say({ type: 'done' })
  // All of them have the other shared worker.
  for (let n = 0; n <= KILLS_BURST; n++) node.sql(cellOf(2 * n + 1), `slow ${n}`, mine)
  node.sql(B, 'neighbour')
  await node.settle()
  for (let kill = 0; kill < KILLS_BURST; kill++) await holdUp(node)
  void node.workers.runTask({ task: 'collect', cellId: A }).catch(() => {})
  await node.settle()
  const asked = () => node.asked.flatMap((worker) => worker.tasks.map(({ task }) => [worker, task.task]))
  expect(asked()).toEqual([[first, 'close']])
  first.reply('close', true)
  await node.settle()
  expect(asked()).toEqual([[expect.not.objectContaining({ identity: first.identity }), 'collect']])
})
