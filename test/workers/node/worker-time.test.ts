import { describe, expect, test } from 'vitest'
import type { ScriptedWorker } from '../../support/workers/scripted-worker.ts'
import {
  A,
  B,
  BLOCK_MS,
  C,
  ScriptedWorkers,
  STATEMENT_MS,
  WAIT_MS,
} from '../../support/workers/scripted-workers.ts'

/** The worker is busy for so long: the processor's time counts, from the first check on. */
async function busyFor(node: ScriptedWorkers, worker: ScriptedWorker, ms: number): Promise<void> {
  await node.pass(10)
  worker.ran += ms
  await node.pass(20)
}

/** A change of A is being committed, and B waits. */
async function inCommit() {
  const node = await ScriptedWorkers.started()
  const change = node.sql(A, 'change')
  const neighbour = node.sql(B, 'neighbour')
  await node.settle()
  const worker = node.busy
  worker.say({ type: 'started', index: 0 })
  worker.answer({ 0: 'done' }, 1)
  return { node, change, neighbour, worker }
}

describe('a COMMIT that keeps the processor busy', () => {
  async function slowed() {
    const { node, change, worker } = await inCommit()
    await busyFor(node, worker, BLOCK_MS + 1)
    expect(worker.isKilled).toBe(true)
    await node.end(worker)
    const [shared, own] = node.asked
    if (shared === undefined || own === undefined) throw new Error('There are not two workers at work')
    expect(shared.given).toEqual(['neighbour'])
    expect(own.tasks.map(({ task }) => task.task)).toEqual(['was-committed'])
    return { node, change, own }
  }

  test('counts for its cell: it holds up nobody, and runs again in the slow worker', async () => {
    const { node, change, own } = await slowed()
    own.reply('was-committed', false)
    await node.settle()
    expect(own.given).toEqual(['change'])
    expect(change).not.toHaveProperty('error')
  })

  test('is answered as made if it was made', async () => {
    const { node, change, own } = await slowed()
    own.reply('was-committed', true)
    await node.settle()
    expect(change.answer).toBe('done')
  })

  test('ends no worker where it only waits for the disk', async () => {
    const { node, change, worker } = await inCommit()
    await node.pass(20 * BLOCK_MS)
    expect(worker.isKilled).toBe(false)
    worker.say({ type: 'committed', transaction: 1 })
    expect(change.answer).toBe('done')
  })
})

test('a COMMIT over the deadline of its statements counts for its cell; they are refused, and the KV operations with them run again', async () => {
  const node = await ScriptedWorkers.started()
  const change = node.sql(A, 'change')
  const put = node.put(A, 'put')
  await node.settle()
  const worker = node.busy
  worker.answer({ 0: 'done', 1: 'put' }, 1)
  await busyFor(node, worker, STATEMENT_MS + 1)
  expect(worker.isKilled).toBe(true)
  await node.end(worker)
  node.busy.reply('was-committed', false)
  await node.settle()
  expect(change.error).toMatchObject({ code: 'statement_timeout' })
  expect(node.hasToWait(A)).toBe(true)
  expect(node.busy.given).toEqual(['put'])
  expect(put).not.toHaveProperty('error')
})

describe('opening a cell', () => {
  test('counts for the operation that needs it: whoever holds up others with it goes to the slow worker, and has a deadline', async () => {
    const node = await ScriptedWorkers.started()
    const get = node.put(A, 'first')
    node.sql(B, 'neighbour')
    await node.settle()
    const shared = node.busy
    shared.say({ type: 'overhead', index: 0 })
    await busyFor(node, shared, BLOCK_MS + 1)
    expect(shared.isKilled).toBe(true)
    await node.end(shared)
    const own = node.asked.find(({ given }) => given.includes('first')) as ScriptedWorker
    expect(own.given).toEqual(['first'])
    own.say({ type: 'overhead', index: 0 })
    await busyFor(node, own, STATEMENT_MS + 1)
    await node.end(own)
    expect(get.error).toMatchObject({ code: 'statement_timeout' })
  })

  test('may take as long as the disk takes; what follows the last cell of a batch is nobody’s', async () => {
    const node = await ScriptedWorkers.started()
    node.put(A, 'first')
    node.put(B, 'neighbour')
    await node.settle()
    node.busy.say({ type: 'overhead', index: 0 })
    await node.pass(20 * BLOCK_MS)
    node.busy.say({ type: 'overhead', index: undefined })
    await busyFor(node, node.busy, 20 * BLOCK_MS)
    expect(node.busy.isKilled).toBe(false)
  })
})

describe('work for a cell besides its operations', () => {
  /** A collects, and B has an operation that waits. */
  async function inTask() {
    const node = await ScriptedWorkers.started()
    const task = node.workers.runTask({ task: 'collect-expired', cellId: A })
    node.sql(B, 'neighbour')
    await node.settle()
    const worker = node.busy
    worker.say({ type: 'working', cellId: A })
    return { node, task, worker }
  }

  test('counts for the cell: it goes to the slow worker if it holds up others, and its task runs again there', async () => {
    const { node, task, worker } = await inTask()
    await busyFor(node, worker, BLOCK_MS + 1)
    expect(worker.isKilled).toBe(true)
    await node.end(worker)
    const [shared, own] = node.asked
    expect(shared?.given).toEqual(['neighbour'])
    expect(own?.tasks.map(({ task: { task, cellId } }) => [task, cellId])).toEqual([['collect-expired', A]])
    own?.reply('collect-expired', undefined)
    await task
  })

  test('has a deadline, in the slow worker too', async () => {
    const { node, task, worker } = await inTask()
    void task.catch(() => {})
    await busyFor(node, worker, BLOCK_MS + 1)
    await node.end(worker)
    const own = node.asked.find(({ tasks }) => tasks.length > 0) as ScriptedWorker
    own.say({ type: 'working', cellId: A })
    await busyFor(node, own, STATEMENT_MS + 1)
    expect(own.isKilled).toBe(true)
  })

  test('is not refused because of the statements of its cell: while these have to wait, it runs', async () => {
    const node = await ScriptedWorkers.started()
    node.sql(A, 'endless')
    await node.settle()
    const worker = node.busy
    worker.say({ type: 'started', index: 0 })
    const task = node.workers.runTask({ task: 'collect-expired', cellId: A })
    await node.pass(STATEMENT_MS + 20)
    await node.end(worker)
    expect(node.hasToWait(A)).toBe(true)
    const next = node.asked.find(({ tasks }) => tasks.length > 0) as ScriptedWorker
    next.reply('collect-expired', undefined)
    await task
  })

  test('but is after its own: it does not end one worker after the other', async () => {
    const node = await ScriptedWorkers.started()
    const task = node.workers.runTask({ task: 'collect-expired', cellId: A })
    void task.catch(() => {})
    await node.settle()
    const worker = node.busy
    worker.say({ type: 'working', cellId: A })
    await busyFor(node, worker, STATEMENT_MS + 1)
    await node.end(worker)
    await expect(task).rejects.toMatchObject({ code: 'rate_limited' })
  })

  test('that waits for the disk, or is over, ends no worker', async () => {
    const { node, worker } = await inTask()
    await node.pass(20 * BLOCK_MS)
    worker.say({ type: 'working', cellId: undefined })
    await busyFor(node, worker, 20 * BLOCK_MS)
    expect(worker.isKilled).toBe(false)
  })

  test('is not counted for the operation in whose time it falls: whoever is closed to make room for a cell pays', async () => {
    const node = await ScriptedWorkers.started()
    node.put(B, 'opens')
    node.put(C, 'waits')
    await node.settle()
    const worker = node.busy
    worker.say({ type: 'overhead', index: 0 })
    worker.say({ type: 'working', cellId: A })
    await busyFor(node, worker, BLOCK_MS - 1)
    worker.say({ type: 'working', cellId: undefined })
    await busyFor(node, worker, BLOCK_MS - 1)
    expect(worker.isKilled).toBe(false)
    worker.say({ type: 'working', cellId: A })
    await busyFor(node, worker, BLOCK_MS + 1)
    expect(worker.isKilled).toBe(true)
    await node.end(worker)
    expect(node.busy.given).toEqual(['opens', 'waits'])
  })
})

test('a transaction that nobody waits for any more is not asked for again', async () => {
  const { node, change, worker } = await inCommit()
  await node.end(worker)
  expect(node.busy.tasks.map(({ task }) => task.task)).toEqual(['was-committed'])
  await node.pass(WAIT_MS + 1_000)
  expect(change.error).toBeInstanceOf(Error)
  await node.end(node.busy)
  expect(node.all.filter(({ isKilled, tasks }) => !isKilled && tasks.length > 0)).toEqual([])
})
