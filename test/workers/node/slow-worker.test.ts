import { describe, expect, test } from 'vitest'
import type { CellRecord } from '../../../src/catalog/cell-registry.ts'
import type { ScriptedWorker } from '../../support/workers/scripted-worker.ts'
import {
  A,
  B,
  BLOCK_MS,
  C,
  ScriptedWorkers,
  SLOW_WORKER_MS,
  STATEMENT_MS,
} from '../../support/workers/scripted-workers.ts'

/** With two home workers it has the same one as B, and A and C have the other. */
const D = 'dddddddd-0000-4000-8000-000000000000'
const neighbour = { accountId: 'neighbour' }
const mine = { accountId: 'mine' }

/** The worker that was given this last. */
function workerOf(node: ScriptedWorkers, text: string): ScriptedWorker {
  const found = node.asked.find(({ given }) => given.includes(text))
  if (found === undefined) throw new Error(`No worker was given ${text}`)
  return found
}

/** Answers what the worker is at work on. */
function finish(worker: ScriptedWorker): void {
  worker.answer(Object.fromEntries(worker.given.map((_, index) => [index, 'done'])))
  worker.say({ type: 'done' })
}

let operations = 0

/** Runs an operation to its end. The worker that has the cell open closes it if it is asked to. @returns the worker that ran it */
async function run(
  node: ScriptedWorkers,
  cellId: string,
  by: { accountId: string },
): Promise<ScriptedWorker> {
  const key = `operation ${++operations}`
  node.put(cellId, key, by)
  await node.settle()
  for (const worker of node.asked)
    if (worker.tasks.some(({ task }) => task.task === 'close')) worker.reply('close', true)
  await node.settle()
  const worker = workerOf(node, key)
  finish(worker)
  return worker
}

/** A statement runs for longer than it may hold up others. */
async function runSlow(node: ScriptedWorkers, text: string): Promise<ScriptedWorker> {
  const worker = workerOf(node, text)
  worker.say({ type: 'started', index: worker.given.indexOf(text) })
  await node.pass(BLOCK_MS + 20)
  return worker
}

/** A statement of D has held up the neighbour, and its account goes to the slow worker; A is open in the other home worker. */
async function slowed() {
  const record = (cellId: string) => (cellId === B ? neighbour : mine) as CellRecord
  const node = await ScriptedWorkers.started({ count: 2, record })
  const home = await run(node, A, mine)
  node.sql(D, 'slow', mine)
  node.put(B, 'held up', neighbour)
  await node.settle()
  const ended = await runSlow(node, 'slow')
  expect(ended.isKilled).toBe(true)
  await node.end(ended)
  finish(workerOf(node, 'held up'))
  const slow = workerOf(node, 'slow')
  return { node, home, slow }
}

describe('an account that costs a worker', () => {
  test('goes to the slow worker with all of its cells, and returns after its time; its statement runs to its end there', async () => {
    const { node, home, slow } = await slowed()
    expect([slow.given, slow.yields]).toEqual([['slow'], true])
    finish(slow)
    for (const cellId of [A, C, D]) expect(await run(node, cellId, mine)).toBe(slow)
    const ofNeighbour = await run(node, B, neighbour)
    expect(ofNeighbour).not.toBe(slow)
    for (let ms = 0; ms < SLOW_WORKER_MS - 5_000; ms += 5_000) {
      await node.pass(5_000)
      await run(node, A, mine)
    }
    expect(await run(node, A, mine)).toBe(slow)
    await node.pass(5_000)
    expect(await run(node, A, mine)).toBe(home)
    expect(await run(node, D, mine)).toBe(ofNeighbour)
  })

  test('costs no other one of its neighbours meanwhile, however many cells it has: in the slow worker a statement has its deadline alone', async () => {
    const { node, slow } = await slowed()
    finish(slow)
    const cells = Array.from({ length: 5 }, (_, n) => D.replace('dddd', `ddd${n}`))
    const asked = cells.map((cellId, n) => node.sql(cellId, `slow ${n}`, mine))
    const waits = node.put(A, 'waits', mine)
    await node.settle()
    for (const worker of node.asked)
      if (worker.tasks.some(({ task }) => task.task === 'close')) worker.reply('close', true)
    node.put(B, 'neighbour', neighbour)
    slow.say({ type: 'started', index: 0 })
    await node.pass(STATEMENT_MS - 100)
    expect(slow.isKilled).toBe(false)
    await node.pass(200)
    expect(slow.isKilled).toBe(true)
    await node.end(slow)
    expect(asked.map(({ error }) => error?.code)).toEqual(['statement_timeout', ...Array(4).fill(undefined)])
    expect(node.all.filter(({ isKilled }) => isKilled)).toHaveLength(2)
    expect(waits).not.toHaveProperty('error')
  })

  test('while it is alone: its cell goes, and all others stay', async () => {
    const node = await ScriptedWorkers.started()
    node.sql(A, 'slow', mine)
    node.put(C, 'held up', mine)
    await node.settle()
    const ended = await runSlow(node, 'slow')
    expect(ended.isKilled).toBe(true)
    await node.end(ended)
    const home = workerOf(node, 'held up')
    expect([home.given, workerOf(node, 'slow').given]).toEqual([['held up'], ['slow']])
    finish(home)
    expect(await run(node, B, mine)).toBe(home)
  })
})

test('what holds up a neighbour after a COMMIT of its own is ended, and never runs again: what was committed would be done twice', async () => {
  const record = (cellId: string) => (cellId === B ? neighbour : mine) as CellRecord
  const node = await ScriptedWorkers.started({ count: 2, record })
  const sent = node.sql(D, 'slow', mine)
  node.put(B, 'held up', neighbour)
  await node.settle()
  const worker = workerOf(node, 'slow')
  worker.say({ type: 'started', index: worker.given.indexOf('slow') })
  worker.say({ type: 'committing', index: worker.given.indexOf('slow') })
  const ended = await runSlow(node, 'slow')
  expect(ended.isKilled).toBe(true)
  await node.end(ended)
  expect(sent.error).toMatchObject({
    code: 'transaction_lost',
    message: expect.stringContaining('committed before it stays'),
  })
  finish(workerOf(node, 'held up'))
  expect(node.asked.some(({ given }) => given.includes('slow'))).toBe(false)
})

test('what holds up its own account alone ends no worker that a neighbour uses, until that has to wait', async () => {
  const node = await ScriptedWorkers.started()
  await run(node, B, neighbour)
  node.sql(A, 'slow', mine)
  node.put(C, 'held up', mine)
  await node.settle()
  const home = await runSlow(node, 'slow')
  expect(home.isKilled).toBe(false)
  node.put(B, 'neighbour', neighbour)
  await node.pass(20)
  expect(home.isKilled).toBe(true)
  await node.end(home)
  expect(workerOf(node, 'held up')).toBe(workerOf(node, 'slow'))
  expect(workerOf(node, 'neighbour').given).toEqual(['neighbour'])
})

test('an account that was active lately is no neighbour any more after ten seconds', async () => {
  const node = await ScriptedWorkers.started()
  await run(node, B, neighbour)
  await node.pass(10_000)
  node.sql(A, 'slow', mine)
  node.put(C, 'held up', mine)
  await node.settle()
  expect((await runSlow(node, 'slow')).isKilled).toBe(true)
})

describe('a cell on its way to another worker', () => {
  test('is closed by its worker first; what waits moves with it, and tasks wait for that (invariant 2)', async () => {
    const { node, home, slow } = await slowed()
    finish(slow)
    node.put(C, 'of another cell', neighbour)
    await node.settle()
    node.put(A, 'first', mine)
    node.put(A, 'second', mine)
    const task = node.workers.runTask({ task: 'collect-expired', cellId: A })
    await node.settle()
    expect(home.tasks.map((each) => each.task.task)).toEqual(['close'])
    expect(slow.given).toEqual(['slow'])
    home.reply('close', true)
    await node.settle()
    expect(slow.given).toEqual(['first', 'second'])
    slow.reply('collect-expired', undefined)
    await task
  })

  test('that its worker needs, for a backup that is being cut for example, stays, and moves later', async () => {
    const { node, home, slow } = await slowed()
    finish(slow)
    node.put(A, 'waits', mine)
    await node.settle()
    home.reply('close', false)
    await node.settle()
    expect(home.given).toEqual(['waits'])
    finish(home)
    node.put(A, 'stays', mine)
    await node.settle()
    expect(home.given).toEqual(['stays'])
    finish(home)
    await node.pass(1_000)
    expect(await run(node, A, mine)).toBe(slow)
  })

  test('is closed if its worker ends meanwhile', async () => {
    const { node, home, slow } = await slowed()
    finish(slow)
    node.put(A, 'moves', mine)
    await node.settle()
    expect(home.tasks.map((each) => each.task.task)).toEqual(['close'])
    await node.end(home)
    expect(workerOf(node, 'moves')).toBe(slow)
  })

  test('at a stop: what waits for it is answered, and no process is left', async () => {
    const { node } = await slowed()
    const waits = node.put(A, 'moves', mine)
    const task = node.workers.runTask({ task: 'collect-expired', cellId: A })
    void task.catch(() => {})
    await node.settle()
    const stopped = node.workers.stop(10_000)
    for (const each of node.all) each.end()
    await stopped
    expect(waits.error).toMatchObject({ code: 'shutting_down' })
    await expect(task).rejects.toMatchObject({ code: 'shutting_down' })
    expect(node.all.filter(({ isKilled, isStopped }) => !isKilled && !isStopped)).toEqual([])
  })
})

test.each([true, false])(
  'tasks that wait for a new worker get there before its first batch, which waits for them a little (answered in time: %s)',
  async (isInTime) => {
    const { node, slow } = await slowed()
    slow.say({ type: 'started', index: 0 })
    const task = node.workers.runTask({ task: 'collect-expired', cellId: D })
    node.sql(D, 'behind', mine)
    const answered = Promise.withResolvers<void>()
    for (const worker of node.all) worker.answered = () => answered.promise
    await node.end(slow)
    expect(node.busy.received).toEqual(['collect-expired'])
    if (isInTime) answered.resolve()
    else node.clock.advance(50)
    await node.settle()
    expect(node.busy.received).toEqual(['collect-expired', 'batch'])
    node.busy.reply('collect-expired', undefined)
    await task
  },
)

describe('a slow worker that nobody uses', () => {
  test('ends after a while, which costs nobody anything, and a new one starts', async () => {
    const { node, slow } = await slowed()
    finish(slow)
    const before = node.workers.metrics.workers?.ended
    await node.pass(61_000)
    expect(slow.isStopped).toBe(true)
    const waits = node.put(D, 'meanwhile', mine)
    await node.end(slow)
    finish(workerOf(node, 'meanwhile'))
    expect(waits.answer).toBe('done')
    expect(node.workers.metrics.workers?.ended).toEqual(before)
  })

  test('is killed if it does not end, and its cells go on elsewhere', async () => {
    const { node, slow } = await slowed()
    finish(slow)
    await node.pass(61_000)
    const waits = node.put(D, 'meanwhile', mine)
    await node.settle()
    expect(slow.isKilled).toBe(false)
    node.clock.advance(30_000)
    expect(slow.isKilled).toBe(true)
    await node.end(slow)
    expect(waits.error).toMatchObject({ code: 'busy' })
    const after = node.put(D, 'after', mine)
    await node.settle()
    finish(workerOf(node, 'after'))
    expect(after.answer).toBe('done')
  })
})
