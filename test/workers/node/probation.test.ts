import { expect, test } from 'vitest'
import type { CellRecord } from '../../../src/catalog/cell-registry.ts'
import { NO_WAL } from '../../../src/engine/wal-end.ts'
import type { ScriptedWorker } from '../../support/workers/scripted-worker.ts'
import {
  A,
  B,
  C,
  HOLD_MS,
  PROBATION_MS,
  ScriptedWorkers,
  TRIAL_MS,
} from '../../support/workers/scripted-workers.ts'

const known = { accountId: 'known' }
const fresh = { accountId: 'new' }
const record = (cellId: string) => ({ accountId: cellId === B ? 'known' : 'new' }) as CellRecord
const told = { isKnown: (accountId: string) => accountId === 'known', record }

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

/** A statement runs for longer than it may hold up others, while others wait for the same worker. */
async function runSlow(node: ScriptedWorkers, text: string): Promise<ScriptedWorker> {
  const worker = workerOf(node, text)
  worker.say({ type: 'started', index: worker.given.indexOf(text) })
  await node.pass(HOLD_MS + 20)
  return worker
}

test("a new account's first slow statement ends no worker that a known account uses", async () => {
  const node = await ScriptedWorkers.started(told)
  const shared = await run(node, B, known)
  node.sql(A, 'slow', fresh)
  node.sql(C, 'mine too', fresh)
  node.put(B, 'neighbour', known)
  await node.settle()
  const slow = await runSlow(node, 'slow')
  expect(slow.isKilled).toBe(true)
  expect(shared.isKilled).toBe(false)
  expect(shared.given).toEqual(['neighbour'])
})

test('an account is new for a while, longer if its statements take long, and then it shares the workers of the others', async () => {
  const node = await ScriptedWorkers.started(told)
  const shared = await run(node, B, known)
  const probation = await run(node, A, fresh)
  expect(probation).not.toBe(shared)
  expect(probation.yields).toBe(true)
  await node.pass(TRIAL_MS - 1_000)
  node.sql(A, 'slow', fresh)
  await node.settle()
  finish(await runSlow(node, 'slow'))
  await node.pass(TRIAL_MS - 1_000)
  await run(node, B, known)
  expect(await run(node, A, fresh)).toBe(probation)
  await node.pass(2_000)
  await run(node, B, known)
  expect(await run(node, A, fresh)).toBe(shared)
})

test('a known account that costs a worker leaves the workers of the others with all of its cells, and returns', async () => {
  const node = await ScriptedWorkers.started({ ...told, isKnown: () => true })
  const first = await run(node, B, known)
  node.sql(A, 'slow', fresh)
  node.put(C, 'mine too', fresh)
  node.put(B, 'neighbour', known)
  await node.settle()
  expect(await runSlow(node, 'slow')).toBe(first)
  await node.end(first)
  const shared = workerOf(node, 'neighbour')
  expect(shared.given).toEqual(['neighbour'])
  finish(shared)
  const probation = workerOf(node, 'mine too')
  finish(probation)
  for (let ms = 0; ms < PROBATION_MS - 5_000; ms += 5_000) {
    await node.pass(5_000)
    await run(node, B, known)
  }
  expect(await run(node, C, fresh)).not.toBe(shared)
  await node.pass(5_000)
  await run(node, B, known)
  expect(await run(node, C, fresh)).toBe(shared)
})

test('an account that is alone is never on probation, new or not', async () => {
  const node = await ScriptedWorkers.started(told)
  const shared = await run(node, A, fresh)
  for (const cellId of [A, B, C]) expect(await run(node, cellId, fresh)).toBe(shared)
  shared.say({ type: 'done' })
  node.sql(A, 'slow', fresh)
  node.put(C, 'mine too', fresh)
  await node.settle()
  await runSlow(node, 'slow')
  await node.end(shared)
  const next = workerOf(node, 'mine too')
  finish(next)
  expect(await run(node, C, fresh)).toBe(next)
})

test('of several new accounts the first one stays where it is', async () => {
  const node = await ScriptedWorkers.started({ isKnown: () => false })
  const shared = await run(node, A, { accountId: 'first' })
  await node.pass(1_000)
  const probation = await run(node, B, { accountId: 'second' })
  await node.pass(1_000)
  expect(await run(node, C, { accountId: 'third' })).toBe(probation)
  expect(await run(node, A, { accountId: 'first' })).toBe(shared)
  expect(probation).not.toBe(shared)
})

test('what a cell has waiting moves with it: its worker closes it first, and tasks wait for that (invariant 2)', async () => {
  const node = await ScriptedWorkers.started(told)
  const shared = await run(node, A, fresh)
  node.put(A, 'running', fresh)
  await node.settle()
  node.put(B, 'neighbour', known)
  await node.settle()
  node.put(A, 'first', fresh)
  node.put(A, 'second', fresh)
  const task = node.workers.runTask({ task: 'collect', cellId: A })
  await node.settle()
  expect(shared.tasks).toEqual([])
  finish(shared)
  await node.settle()
  expect(shared.given).toEqual(['neighbour'])
  expect(shared.tasks.map((each) => each.task.task)).toEqual(['close'])
  expect(node.asked).toEqual([shared])
  shared.reply('close', true)
  await node.settle()
  const probation = workerOf(node, 'first')
  expect(probation).not.toBe(shared)
  expect(probation.given).toEqual(['first', 'second'])
  probation.reply('collect', undefined)
  await task
})

test('a cell that its worker needs, for a backup that is being cut for example, stays, and moves later', async () => {
  const node = await ScriptedWorkers.started(told)
  const shared = await run(node, A, fresh)
  await run(node, B, known)
  node.put(A, 'waits', fresh)
  await node.settle()
  shared.reply('close', false)
  await node.settle()
  expect(shared.given).toEqual(['waits'])
  finish(shared)
  node.put(A, 'stays', fresh)
  await node.settle()
  expect(shared.given).toEqual(['stays'])
  finish(shared)
  await node.pass(1_000)
  await run(node, B, known)
  expect(await run(node, A, fresh)).not.toBe(shared)
})

test('a worker that ends while it is to close a cell has closed it', async () => {
  const node = await ScriptedWorkers.started(told)
  const shared = await run(node, A, fresh)
  node.put(B, 'neighbour', known)
  node.put(A, 'moves', fresh)
  await node.settle()
  expect(shared.tasks.map((each) => each.task.task)).toEqual(['close'])
  await node.end(shared)
  expect(workerOf(node, 'moves')).not.toBe(workerOf(node, 'neighbour'))
})

test('a transaction that was perhaps committed moves too: the next worker of the cell is asked, and nobody else', async () => {
  const node = await ScriptedWorkers.started(told)
  const shared = await run(node, A, fresh)
  const written = node.put(A, 'written', fresh)
  await node.settle()
  shared.answer({ 0: 'done' }, 1)
  node.startsAtOnce = false
  for (const worker of node.all) await node.end(worker)
  node.put(B, 'neighbour', known)
  node.put(A, 'next', fresh)
  await node.settle()
  for (let start = 0; start < 5; start++) {
    for (const worker of node.all) worker.becomeReady()
    await node.pass(1_000)
  }
  expect(workerOf(node, 'neighbour').tasks).toEqual([])
  const probation = workerOf(node, 'next')
  expect(probation.tasks.map(({ task }) => task)).toEqual([
    { task: 'was-committed', cellId: A, before: NO_WAL },
  ])
  probation.reply('was-committed', true)
  await node.settle()
  expect(written.answer).toBe('done')
})

interface Taken {
  spent?: [cell: number, ms: number][]
}

/** Runs an operation of A that takes so long on the processor. @returns the worker that ran it */
function runHeavy(node: ScriptedWorkers, by: { accountId: string }, ms: number) {
  return runTaking(node, by, { spent: [[0, ms]] })
}

/** Runs an operation of A in a batch that takes this. @returns the worker that ran it */
async function runTaking(node: ScriptedWorkers, by: { accountId: string }, taken: Taken) {
  const key = `heavy ${++operations}`
  node.put(A, key, by)
  await node.settle()
  for (const worker of node.asked)
    if (worker.tasks.some(({ task }) => task.task === 'close')) worker.reply('close', true)
  await node.settle()
  const worker = workerOf(node, key)
  worker.answer({ 0: 'done' })
  worker.say({ type: 'done', ...taken })
  return worker
}

test('an account that keeps a worker busy with heavy operations goes on probation, until it has stopped for a while', async () => {
  const node = await ScriptedWorkers.started({ isKnown: () => true })
  const shared = await run(node, B, { accountId: 'neighbour' })
  for (let i = 0; i < 10; i++) {
    expect(await runHeavy(node, { accountId: 'heavy' }, 30)).toBe(shared)
    await node.pass(20)
  }
  const probation = await runHeavy(node, { accountId: 'heavy' }, 30)
  expect(probation).not.toBe(shared)
  await node.pass(TRIAL_MS + 1_000)
  await run(node, B, { accountId: 'neighbour' })
  expect(await runHeavy(node, { accountId: 'heavy' }, 30)).toBe(shared)
})

test('heavy operations now and then, and many light ones, leave an account where it is', async () => {
  const node = await ScriptedWorkers.started({ isKnown: () => true })
  const shared = await run(node, B, { accountId: 'neighbour' })
  for (let i = 0; i < 20; i++) {
    expect(await runHeavy(node, { accountId: 'heavy' }, 30)).toBe(shared)
    await node.pass(240)
  }
  for (let i = 0; i < 600; i++) expect(await runHeavy(node, { accountId: 'heavy' }, 0.9)).toBe(shared)
})

test('many operations of a millisecond are heavy, too: a batch has as many as a slice has time for', async () => {
  const node = await ScriptedWorkers.started({ isKnown: () => true })
  const shared = await run(node, B, { accountId: 'neighbour' })
  for (let i = 0; i < 300; i++) await runHeavy(node, { accountId: 'heavy' }, 1)
  expect(await runHeavy(node, { accountId: 'heavy' }, 1)).not.toBe(shared)
})

/** Has a step of a backup of A run, which holds its worker up for so long. @returns the worker that ran it */
async function runTask(node: ScriptedWorkers, ms: number, isAskedFor = true): Promise<ScriptedWorker> {
  const call = { method: 'end' as const, args: [] as [] }
  const task = node.workers.runTask({ task: 'cut', cellId: A, call }, { isAskedFor })
  await node.settle()
  for (const worker of node.asked)
    if (worker.tasks.some((each) => each.task.task === 'close')) worker.reply('close', true, ms)
  await node.settle()
  const worker = node.asked.find(({ tasks }) => tasks.length > 0) as ScriptedWorker
  worker.reply('cut', undefined, ms)
  await task
  return worker
}

test('an account that keeps a worker busy with backups that it asks for goes on probation; with upkeep it stays where it is', async () => {
  const node = await ScriptedWorkers.started({
    isKnown: () => true,
    record: () => ({ accountId: 'busy' }) as CellRecord,
  })
  const shared = await run(node, B, { accountId: 'neighbour' })
  for (let i = 0; i < 100; i++) expect(await runTask(node, 5, false)).toBe(shared)
  for (let i = 0; i < 50; i++) expect(await runTask(node, 5)).toBe(shared)
  expect(await runTask(node, 5)).toBe(shared)
  const probation = await runTask(node, 5)
  expect(probation).not.toBe(shared)
  await node.pass(TRIAL_MS + 1_000)
  await run(node, B, { accountId: 'neighbour' })
  expect(await runTask(node, 5)).toBe(shared)
})

test('what the node does for an account at its own event loop counts as well', async () => {
  const node = await ScriptedWorkers.started({ isKnown: () => true })
  const shared = await run(node, B, { accountId: 'neighbour' })
  const hold = (accountId: string | undefined) =>
    node.workers.holdingUp(accountId, () => node.clock.advance(5))
  for (let i = 0; i < 100; i++) hold(undefined)
  for (let i = 0; i < 20; i++) hold('busy')
  expect(await run(node, A, { accountId: 'busy' })).toBe(shared)
  for (let i = 0; i < 60; i++) hold('busy')
  expect(() =>
    node.workers.holdingUp('busy', () => {
      throw new Error('It failed.')
    }),
  ).toThrow('It failed.')
  await run(node, B, { accountId: 'neighbour' })
  expect(await run(node, A, { accountId: 'busy' })).not.toBe(shared)
})

test('the probation worker ends when nobody has used it for a while, and a new one starts', async () => {
  const node = await ScriptedWorkers.started(told)
  await run(node, B, known)
  const probation = await run(node, A, fresh)
  await node.pass(61_000)
  expect(probation.isStopped).toBe(true)
  const waits = node.put(A, 'meanwhile', fresh)
  await node.end(probation)
  finish(workerOf(node, 'meanwhile'))
  expect(waits.answer).toBe('done')
})

test('a probation worker that does not end is killed, and its cells go on elsewhere', async () => {
  const node = await ScriptedWorkers.started(told)
  await run(node, B, known)
  const probation = await run(node, A, fresh)
  await node.pass(61_000)
  const waits = node.put(A, 'meanwhile', fresh)
  await node.settle()
  expect(probation.isKilled).toBe(false)
  node.clock.advance(30_000)
  expect(probation.isKilled).toBe(true)
  await node.end(probation)
  expect(waits.error).toMatchObject({ code: 'busy' })
  const after = node.put(A, 'after', fresh)
  await node.settle()
  finish(workerOf(node, 'after'))
  expect(after.answer).toBe('done')
})

test('a stop during a move answers what waits for it, and leaves no process', async () => {
  const node = await ScriptedWorkers.started(told)
  await run(node, A, fresh)
  await run(node, B, known)
  const waits = node.put(A, 'moves', fresh)
  const task = node.workers.runTask({ task: 'collect', cellId: A })
  void task.catch(() => {})
  await node.settle()
  const stopped = node.workers.stop(10_000)
  for (const each of node.all) each.end()
  await stopped
  expect(waits.error).toMatchObject({ code: 'shutting_down' })
  await expect(task).rejects.toMatchObject({ code: 'shutting_down' })
  expect(node.all.filter(({ isKilled, isStopped }) => !isKilled && !isStopped)).toEqual([])
})
