import { describe, expect, test } from 'vitest'
import type { ScriptedWorker } from '../../support/workers/scripted-worker.ts'
import { A, B, ScriptedWorkers } from '../../support/workers/scripted-workers.ts'

describe('batches', () => {
  test('what comes in one turn of the event loop makes one; what comes meanwhile makes the next', async () => {
    const node = await ScriptedWorkers.started()
    node.put(A, 'a')
    node.put(B, 'b')
    await node.settle()
    const worker = node.busy
    node.put(A, 'c')
    await node.settle()
    expect(worker.batches).toHaveLength(1)
    expect(worker.given).toEqual(['a', 'b'])
    worker.answer({ 0: 1, 1: 2 })
    worker.say({ type: 'done' })
    expect(worker.given).toEqual(['c'])
  })

  test('what nobody waits for any more is not sent', async () => {
    const node = await ScriptedWorkers.started()
    node.put(A, 'a')
    await node.settle()
    node.put(A, 'abandoned').abandon()
    node.put(A, 'b')
    node.busy.say({ type: 'done' })
    expect(node.busy.given).toEqual(['b'])
  })
})

describe('tasks', () => {
  test('are run again where their worker is ended for somebody else', async () => {
    const node = await ScriptedWorkers.started()
    const task = node.workers.runTask({ task: 'begin-restore', cellId: A })
    await node.settle()
    await node.end(node.busy)
    node.busy.reply('begin-restore', { isLocal: true, last: null })
    expect(await task).toEqual({ isLocal: true, last: null })
  })

  test('learn of it before they are run again', async () => {
    const node = await ScriptedWorkers.started()
    const options = { isNewest: true, version: 'restored', last: 'v', line: 0, isRepeat: false }
    const task = node.workers.runTask({ task: 'install', cellId: A, options }, {}, () => {
      options.isRepeat = true
    })
    await node.settle()
    expect(node.busy.tasks).toMatchObject([{ task: { options: { isRepeat: false } } }])
    await node.end(node.busy)
    expect(node.busy.tasks).toMatchObject([{ task: { options: { isRepeat: true } } }])
    node.busy.reply('install', undefined)
    await task
  })

  test('are given up in the end, with a word on when to try again', async () => {
    const node = await ScriptedWorkers.started()
    const task = node.workers.runTask({ task: 'collect-expired', cellId: A })
    const failed = expect(task).rejects.toMatchObject({ code: 'busy', details: { retryAfterMs: 1_000 } })
    for (let end = 0; end < 5; end++) {
      await node.settle()
      await node.end(node.busy)
    }
    await failed
  })

  test('that wait for a worker end with their signal', async () => {
    const node = await ScriptedWorkers.started()
    node.startsAtOnce = false
    for (const worker of node.all) await node.end(worker)
    const abort = new AbortController()
    const task = node.workers.runTask({ task: 'collect-expired', cellId: A }, { signal: abort.signal })
    await node.settle()
    abort.abort(new Error('gone'))
    await expect(task).rejects.toThrow('gone')
  })
})

describe('processes', () => {
  test('are started to replace others once what waits has the one in reserve: a start holds up the event loop', async () => {
    const node = await ScriptedWorkers.started()
    node.put(A, 'a')
    await node.settle()
    const { busy } = node
    const reserve = node.all.find((worker) => worker !== busy) as ScriptedWorker
    const before = node.all.length
    let atBatch = 0
    const { runBatch } = reserve
    reserve.runBatch = (cells) => {
      atBatch = node.all.length
      runBatch.call(reserve, cells)
    }
    await node.end(busy)
    expect([atBatch, node.all.length]).toEqual([before, before + 1])
  })

  test('that the system refuses for a while are asked for again, and the node lives on', async () => {
    const node = await ScriptedWorkers.started()
    node.refusal = new Error('EAGAIN')
    for (const worker of node.all) await node.end(worker)
    const waits = node.put(A, 'waits')
    await node.pass(1_000)
    node.refusal = undefined
    await node.pass(5_000)
    node.busy.answer({ 0: 'done' })
    expect(waits.answer).toBe('done')
  })

  test('that can not be started at all end the start', async () => {
    const node = new ScriptedWorkers()
    node.refusal = new Error('EAGAIN')
    const started = expect(node.workers.start()).rejects.toMatchObject({ code: 'internal' })
    await node.pass(10_000)
    await started
  })

  test('that end before anybody has used them are replaced less and less often', async () => {
    const node = await ScriptedWorkers.started()
    for (let second = 0; second < 60; second++) {
      for (const worker of node.all.filter(({ batches, tasks }) => batches.length + tasks.length === 0))
        if (worker !== node.all[0]) worker.end()
      await node.pass(1_000)
    }
    expect(node.all.length).toBeLessThan(25)
  })
})

test('a stop lets what runs finish, refuses what waits, and leaves no process', async () => {
  const node = await ScriptedWorkers.started()
  const running = node.put(A, 'running')
  await node.settle()
  const waits = node.put(A, 'waits')
  const worker = node.busy
  const stopped = node.workers.stop(10_000)
  worker.answer({ 0: 'done' })
  worker.say({ type: 'done' })
  expect(worker.given).toEqual(['running'])
  for (const each of node.all) expect(each.isStopped || each.isKilled).toBe(true)
  for (const each of node.all) each.end()
  await stopped
  expect(running.answer).toBe('done')
  expect(waits.error).toMatchObject({ code: 'shutting_down' })
  const late = node.workers.runTask({ task: 'collect-expired', cellId: A })
  node.clock.advance(60_000)
  expect(node.all.filter(({ isKilled, isStopped }) => !isKilled && !isStopped)).toEqual([])
  void late.catch(() => {})
})

test('what a batch had no time for runs in the next one, behind other accounts, and in the order of its cell', async () => {
  const node = await ScriptedWorkers.started()
  const asked = ['1', '2', '3'].map((text) => node.sql(A, text))
  await node.settle()
  node.sql(A, '4')
  node.sql(B, 'neighbour')
  const worker = node.busy
  worker.answer({ 0: 'one' })
  worker.say({ type: 'done', returned: [1, 2], spent: [[0, 30]] })
  await node.settle()
  expect(asked[0]?.answer).toBe('one')
  expect(worker.given.slice(0, 2)).toEqual(['neighbour', '2'])
  worker.say({ type: 'done', returned: [1], spent: [] })
})
