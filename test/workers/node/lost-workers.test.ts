import { describe, expect, test } from 'vitest'
import { NO_WAL } from '../../../src/engine/wal/wal-end.ts'
import type { ScriptedWorker } from '../../support/workers/scripted-worker.ts'
import {
  A,
  type Asked,
  B,
  BLOCK_MS,
  KILLS_BURST,
  LOG_BYTES_MAX,
  MEMORY_MAX,
  ScriptedWorkers,
  STATEMENT_MS,
  WAIT_MS,
} from '../../support/workers/scripted-workers.ts'

describe('what was being committed when a worker ended is asked of the next worker, before anything else', () => {
  async function endedInCommit() {
    const node = await ScriptedWorkers.started()
    const change = node.sql(A, 'change')
    await node.settle()
    const first = node.busy
    first.say({ type: 'started', index: 0 })
    first.answer({ 0: 'done' }, 1)
    const later = node.sql(A, 'later')
    await node.end(first)
    const second = node.busy
    expect(second).not.toBe(first)
    expect(second.tasks.map(({ task }) => task.task)).toEqual(['was-committed'])
    expect(change).not.toHaveProperty('answer')
    return { node, change, later, second }
  }

  test('it is answered with the result that had left the worker if it was committed, and never runs again', async () => {
    const { node, change, second } = await endedInCommit()
    second.reply('was-committed', true)
    await node.settle()
    expect(change.answer).toBe('done')
    expect(second.batches.flatMap(({ cells }) => cells.flatMap(({ operations }) => operations))).toHaveLength(
      1,
    )
    expect(second.given).toEqual(['later'])
  })

  test('it runs again if it was not', async () => {
    const { node, change, second } = await endedInCommit()
    second.reply('was-committed', false)
    second.answer({ 0: 'later' })
    second.say({ type: 'done' })
    await node.settle()
    expect(second.given).toEqual(['change'])
    second.answer({ 0: 'done at last' })
    expect(change.answer).toBe('done at last')
  })

  test('nobody can tell: it is answered, with nothing that invites to another try, and never runs again', async () => {
    const { node, change, second } = await endedInCommit()
    second.reply('was-committed', null)
    await node.settle()
    expect(change.error).toMatchObject({ message: expect.stringContaining('unknown') })
    expect(change.error?.code).toBeUndefined()
    expect(second.given).toEqual(['later'])
  })

  test('the next worker ends as well: the one after it is asked', async () => {
    const { node, change, second } = await endedInCommit()
    await node.end(second)
    node.busy.reply('was-committed', true)
    await node.settle()
    expect(change.answer).toBe('done')
  })

  test('nobody can be asked for too long: it is answered, with nothing that invites to another try', async () => {
    const { node, change, second } = await endedInCommit()
    node.startsAtOnce = false
    await node.end(second)
    await node.pass(WAIT_MS + 100)
    expect(change.error).toMatchObject({ message: expect.stringContaining('unknown') })
    expect(change.error?.code).toBeUndefined()
  })

  test('when the node stops before a worker was asked, the operation is still answered', async () => {
    const { node, change, later, second } = await endedInCommit()
    const stopped = node.workers.stop(1_000)
    for (const worker of node.all) worker.end()
    await stopped
    expect(second.isStopped).toBe(true)
    expect(change.error?.message).toContain('unknown')
    expect(later.error).toMatchObject({ code: 'shutting_down' })
  })
})

describe('a statement that comes to its end as its worker is ended for it', () => {
  test('is not refused as too long while it may have been committed', async () => {
    const node = await ScriptedWorkers.started()
    const change = node.sql(A, 'change')
    await node.settle()
    const worker = node.busy
    worker.say({ type: 'started', index: 0 })
    await node.pass(STATEMENT_MS + 20)
    expect(worker.isKilled).toBe(true)
    worker.answer({ 0: 'done' }, 1)
    await node.end(worker)
    expect(change).not.toHaveProperty('error')
    node.busy.reply('was-committed', true)
    await node.settle()
    expect(change.answer).toBe('done')
  })

  test('does not bring its neighbours under suspicion', async () => {
    const node = await ScriptedWorkers.started()
    const change = node.sql(A, 'change')
    const neighbour = node.sql(B, 'neighbour')
    await node.settle()
    const worker = node.busy
    worker.say({ type: 'started', index: 0 })
    await node.pass(BLOCK_MS + 20)
    worker.answer({ 0: 'done' }, 1)
    await node.end(worker)
    expect(neighbour.operation.crashes + change.operation.crashes).toBe(0)
  })
})

test('a cell that goes to the slow worker is asked there what became of its transactions, and its home worker opens it no more (invariants 2, 3)', async () => {
  const node = await ScriptedWorkers.started()
  const first = node.sql(A, 'first')
  const slow = node.sql(A, 'slow')
  node.sql(B, 'neighbour')
  await node.settle()
  const worker = node.busy
  worker.answer({ 0: 'done' }, 1)
  worker.say({ type: 'started', index: 1 })
  await node.pass(BLOCK_MS + 20)
  expect(worker.isKilled).toBe(true)
  await node.end(worker)
  await node.settle()
  const [home, slowWorker] = node.asked
  expect(home?.given).toEqual(['neighbour'])
  expect(home?.tasks).toEqual([])
  expect(slowWorker?.tasks.map(({ task }) => task)).toEqual([
    { task: 'was-committed', cellId: A, before: NO_WAL },
  ])
  slowWorker?.reply('was-committed', true)
  await node.settle()
  expect(first.answer).toBe('done')
  expect(slowWorker?.given).toEqual(['slow'])
  expect(slow).not.toHaveProperty('answer')
})

test('what has to be run again keeps its order', async () => {
  const node = await ScriptedWorkers.started()
  for (const name of ['slow', 'second', 'third']) node.sql(A, name)
  for (const name of ['x', 'y']) node.sql(B, name)
  await node.settle()
  const worker = node.busy
  const later = ['z', 'fourth'].map((name, i) => node.sql([B, A][i] as string, name))
  worker.say({ type: 'started', index: 0 })
  await node.pass(BLOCK_MS + 20)
  await node.end(worker)
  expect(node.asked.map(({ given }) => given)).toEqual([
    ['x', 'y', 'z'],
    ['slow', 'second', 'third', 'fourth'],
  ])
  expect(later.map(({ error }) => error)).toEqual([undefined, undefined])
})

test('what has waited for too long by then does not begin again', async () => {
  const node = await ScriptedWorkers.started()
  const late = node.put(A, 'late')
  await node.settle()
  await node.pass(WAIT_MS + 10)
  await node.end(node.busy)
  expect(late.error).toMatchObject({ code: 'busy' })
  expect(node.all.at(-1)?.batches).toEqual([])
})

describe('a worker ends by itself', () => {
  /** Nothing of it was committed, so it may be asked for again. Whoever ended the workers, it is no bug of ours. */
  const givenUp = { code: 'busy', details: { retryAfterMs: expect.any(Number) } }

  test('with no statement running: each goes alone, the one that ends it again and again is given up, all others are done once', async () => {
    const node = await ScriptedWorkers.started()
    const asked = ['a', 'poison', 'b'].map((key) => node.put(key === 'b' ? B : A, key))
    await node.settle()
    expect(node.busy.given).toEqual(['a', 'poison', 'b'])
    const done: string[] = []
    for (let ends = 0; ends < 10 && asked.some(({ answer, error }) => !answer && !error); ends++) {
      const worker = node.busy
      if (worker.given.includes('poison')) {
        await node.end(worker)
        continue
      }
      expect(worker.given).toHaveLength(1)
      done.push(...worker.given)
      worker.answer({ 0: worker.given[0] })
      worker.say({ type: 'done' })
      await node.settle()
    }
    expect(done.sort()).toEqual(['a', 'b'])
    expect(asked.map(({ answer }) => answer)).toEqual(['a', undefined, 'b'])
    expect(asked[1]?.error).toMatchObject(givenUp)
  })

  test('with a statement running: that is tried again in the slow worker, and given up in the end; its neighbours are not suspected', async () => {
    const node = await ScriptedWorkers.started()
    const statement = node.sql(A, 'poison')
    const neighbour = node.sql(B, 'neighbour')
    await node.settle()
    for (let crash = 0; crash < 3; crash++) {
      expect(statement).not.toHaveProperty('error')
      const worker = node.asked.find(({ given }) => given.includes('poison'))
      worker?.say({ type: 'started', index: 0 })
      worker?.kill()
      await node.end(worker as never)
    }
    expect(statement.error).toMatchObject(givenUp)
    expect(neighbour.operation.crashes).toBe(0)
    expect([A, B].map((cellId) => node.hasToWait(cellId))).toEqual([true, false])
  })
})

describe('an operation that adds more to its cell’s log than it may', () => {
  async function written() {
    const node = await ScriptedWorkers.started()
    const asked = [node.sql(A, 'change'), node.put(A, 'put'), node.sql(B, 'neighbour')]
    await node.settle()
    const worker = node.busy
    /** It has added so much since it was looked at first, at which the log was long already. */
    const adds = async (bytes: number) => {
      node.logBytes.set(A, 5 * LOG_BYTES_MAX)
      await node.pass(10)
      node.logBytes.set(A, 5 * LOG_BYTES_MAX + bytes)
      await node.pass(10)
    }
    return { node, asked, worker, adds }
  }

  test('ends its worker and is refused; all others run again', async () => {
    const { node, asked, worker, adds } = await written()
    worker.say({ type: 'started', index: 0 })
    await adds(LOG_BYTES_MAX)
    expect(worker.isKilled).toBe(false)
    await adds(LOG_BYTES_MAX + 1)
    expect(worker.isKilled).toBe(true)
    await node.end(worker)
    const [change, ...others] = asked
    const details = { limit: LOG_BYTES_MAX }
    expect(change?.error).toMatchObject({ code: 'transaction_too_large', details })
    expect(node.asked.flatMap(({ given }) => given).sort()).toEqual(['neighbour', 'put'])
    expect(others.map(({ error }) => error)).toEqual([undefined, undefined])
  })

  test.each([true, false])('in its COMMIT, which was made: %s', async (isCommitted) => {
    const { node, asked, worker, adds } = await written()
    worker.answer({ 0: 'changed', 1: 'put' }, 1)
    await adds(LOG_BYTES_MAX + 1)
    await node.end(worker)
    const next = node.asked.find(({ tasks }) => tasks.length > 0)
    next?.reply('was-committed', isCommitted)
    await node.settle()
    const [change, put] = asked
    if (isCommitted) expect([change?.answer, put?.answer]).toEqual(['changed', 'put'])
    else expect(change?.error).toMatchObject({ code: 'transaction_too_large' })
    expect(next?.given).toEqual(isCommitted ? [] : ['put'])
  })
})

describe('a worker that uses too much memory', () => {
  test('is ended before it has all of it, and at the next look while a statement runs (invariant 13)', async () => {
    const node = await ScriptedWorkers.started()
    node.sql(A, 'bomb')
    await node.settle()
    const shared = node.busy
    shared.say({ type: 'started', index: 0 })
    shared.memory = (MEMORY_MAX * 7) / 8 + 1
    await node.pass(10)
    expect(shared.isKilled).toBe(true)
  })

  test('is ended, and nobody is charged where many cells share it; in the slow worker, where nothing else runs with it, the statement is refused', async () => {
    const node = await ScriptedWorkers.started()
    const statement = node.sql(A, 'bomb')
    await node.settle()
    const shared = node.busy
    shared.say({ type: 'started', index: 0 })
    shared.memory = MEMORY_MAX + 1
    await node.pass(100)
    expect(shared.isKilled).toBe(true)
    await node.end(shared)
    expect(statement).not.toHaveProperty('error')
    node.put(A, 'another')
    await node.settle()
    const slowWorker = node.busy
    expect(slowWorker.given).toEqual(['bomb'])
    slowWorker.say({ type: 'started', index: 0 })
    slowWorker.ranOutOfMemory = true
    await node.end(slowWorker)
    expect(statement.error).toMatchObject({ code: 'result_memory_exceeded' })
    expect(node.hasToWait(A)).toBe(true)
  })

  test('is charged to the account whose open cells had most of it before, if the worker has said so, and not to the one whose operation ran', async () => {
    const node = await ScriptedWorkers.started()
    const changes: Asked[] = []
    for (let kill = 0; kill <= KILLS_BURST; kill++) {
      changes.push(node.put(A, `${kill}`))
      await node.settle()
      const shared = node.busy
      shared.counts.heaviest = 'mine'
      shared.ranOutOfMemory = true
      await node.end(shared)
      node.busy.answer({ 0: 'done' })
      node.busy.say({ type: 'done' })
      await node.settle()
    }
    expect(changes.map(({ answer }) => answer)).toEqual(changes.map(() => 'done'))
    expect([node.hasToWait(B, { accountId: 'mine' }), node.hasToWait(A)]).toEqual([true, false])
  })
})

test('who starts long statements and hangs up is slowed down like others', async () => {
  const node = await ScriptedWorkers.started()
  const statement = node.sql(A, 'long')
  await node.settle()
  const worker = node.busy
  worker.say({ type: 'started', index: 0 })
  statement.abandon()
  await node.pass(BLOCK_MS + 20)
  expect(worker.isKilled).toBe(true)
  await node.end(worker)
  expect(node.hasToWait(A)).toBe(true)
  expect(node.all.filter(({ given }) => given.includes('long'))).toEqual([worker])
})

test('time in which the processors were others’ does not count against a statement', async () => {
  const node = await ScriptedWorkers.started()
  node.sql(A, 'starved')
  node.sql(B, 'neighbour')
  await node.settle()
  const worker = node.busy
  worker.say({ type: 'started', index: 0 })
  await node.pass(10)
  worker.waited += 1_000
  await node.pass(900)
  expect(worker.isKilled).toBe(false)
  await node.pass(200)
  expect(worker.isKilled).toBe(true)
})

test('a worker that starts while a cell is restored knows of it: it would remove the database that is being built (invariant 10)', async () => {
  const node = await ScriptedWorkers.started()
  node.workers.setBuilding([A])
  await node.end(node.all[0] as ScriptedWorker)
  const last = node.all.at(-1)
  expect(last).not.toBe(node.all[0])
  expect(node.all.filter(({ isEnded }) => !isEnded).map(({ building }) => building)).toEqual([[A], [A]])
  node.workers.setBuilding([])
  expect(last?.building).toEqual([])
})

describe('an operation that has committed a part of it never runs again, and is not told to try again', () => {
  /** Its worker runs a statement behind its COMMIT. */
  async function behindCommit() {
    const node = await ScriptedWorkers.started({ count: 2 })
    const sent = node.sql(A, 'sent')
    await node.settle()
    const worker = node.asked.find(({ given }) => given.includes('sent')) as ScriptedWorker
    worker.say({ type: 'started', index: 0 })
    worker.say({ type: 'committing', index: 0 })
    worker.say({ type: 'started', index: 0 })
    const givenAgain = () => node.asked.some((each) => each !== worker && each.given.includes('sent'))
    return { node, sent, worker, givenAgain }
  }

  test('its statement takes too long', async () => {
    const { node, sent, worker, givenAgain } = await behindCommit()
    await node.pass(STATEMENT_MS + 20)
    expect(worker.isKilled).toBe(true)
    await node.end(worker)
    expect(sent.error).toMatchObject({
      code: 'statement_timeout',
      message: expect.stringContaining('committed before it stays'),
    })
    expect(givenAgain()).toBe(false)
  })

  test('its worker crashes', async () => {
    const { node, sent, worker, givenAgain } = await behindCommit()
    await node.end(worker)
    await node.settle()
    expect(sent.error).toMatchObject({ message: expect.stringContaining('unknown') })
    expect(sent.error?.code).toBeUndefined()
    expect(givenAgain()).toBe(false)
  })
})
