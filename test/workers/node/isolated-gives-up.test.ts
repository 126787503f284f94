import { expect, test } from 'vitest'
import type { ScriptedWorker } from '../../support/workers/scripted-worker.ts'
import { A, B, C, HOLD_MS, ScriptedWorkers, STATEMENT_MS } from '../../support/workers/scripted-workers.ts'

/** An account with two isolated cells, one place for them, and a statement on the first that begins as that has to give its worker up. */
async function givingUp(
  text: string,
  statementMs = STATEMENT_MS,
  after?: [text: string, statementMs: number],
) {
  const node = await ScriptedWorkers.started()
  const ask = (cell: string, what: string, told = {}) =>
    node.sql(cell, what, { accountId: 'x', notAfter: node.clock.monotonic() + 60_000, ...told })
  const workerWith = (what: string) => {
    const worker = node.all.findLast((each) => !each.isEnded && each.given.includes(what))
    if (worker === undefined) throw new Error(`No worker was given ${what}.`)
    return worker
  }
  ask(A, 'a1')
  await node.settle()
  node.sql(C, 'other')
  const shared = node.busy
  shared.say({ type: 'started', index: 0 })
  await node.pass(HOLD_MS + 20)
  await node.end(shared)
  const worker = workerWith('a1')
  worker.say({ type: 'started', index: 0 })
  ask(B, 'b1')
  await node.settle()
  const other = workerWith('other')
  other.answer({ 0: 'ok' })
  other.say({ type: 'done' })
  await node.settle()
  const crashing = workerWith('b1')
  crashing.say({ type: 'started', index: 0 })
  await node.end(crashing)
  await node.pass(4_000)
  worker.answer({ 0: 'done' })
  worker.say({ type: 'done' })
  const asked = ask(A, text, { statementMs })
  const rest = after && ask(A, after[0], { statementMs: after[1] })
  await node.settle()
  expect(worker.given).toEqual(after === undefined ? [text] : [text, after[0]])
  worker.say({ type: 'started', index: 0 })
  await node.pass(1_500)
  expect([worker.isStopped, worker.isKilled]).toEqual([true, false])
  return { node, worker, asked, rest, ask, workerWith }
}

test('a statement that takes too long while its isolated slot gives its worker up costs a strike, and is answered', async () => {
  const { node, worker, asked } = await givingUp('endless')
  await node.pass(STATEMENT_MS - 1_400)
  expect(worker.isKilled).toBe(true)
  await node.end(worker)
  expect(asked.error).toMatchObject({ code: 'statement_timeout' })
  expect(node.strikes).toEqual([A])
  expect(node.workers.metrics.workers?.ended).toContainEqual({ reason: 'timeout', count: 1 })
})

test('a statement that may take longer than a worker may take to end has all of its time', async () => {
  const { node, worker, asked } = await givingUp('long', 60_000)
  node.clock.advance(40_000)
  await node.settle()
  expect(worker.isKilled).toBe(false)
  node.clock.advance(20_000)
  await node.pass(20)
  await node.end(worker)
  expect(asked.error).toMatchObject({ code: 'statement_timeout' })
})

test('so has one that begins in the same batch after that', async () => {
  const { node, worker, asked, rest } = await givingUp('short', STATEMENT_MS, ['long', 60_000])
  worker.answer({ 0: 'done' })
  worker.say({ type: 'started', index: 1 })
  node.clock.advance(59_000)
  await node.settle()
  expect(worker.isKilled).toBe(false)
  worker.answer({ 1: 'long' })
  worker.say({ type: 'done' })
  await node.end(worker)
  expect([asked.answer, rest?.answer]).toEqual(['done', 'long'])
})

test('the next worker of the cell says whether a COMMIT was made that was running when its isolated slot gave its worker up', async () => {
  const { node, worker, asked, workerWith } = await givingUp('change')
  worker.answer({ 0: 'result' }, 1)
  await node.end(worker)
  expect(asked).not.toHaveProperty('error')
  const next = workerWith('b1')
  next.answer({ 0: 'ok' })
  next.say({ type: 'done' })
  await node.pass(200)
  await node.end(next)
  const isAsked = ({ tasks }: ScriptedWorker) => tasks.some(({ task }) => task.task === 'was-committed')
  node.all.find((each) => !each.isEnded && isAsked(each))?.reply('was-committed', true)
  await node.settle()
  expect(asked.answer).toBe('result')
})

test('what waits while an isolated slot gives its worker up goes to the next slot of its cell, and past no shared worker', async () => {
  const { node, worker, ask } = await givingUp('change')
  const waits = ask(A, 'waits')
  worker.answer({ 0: 'result' })
  worker.say({ type: 'done' })
  await node.end(worker)
  expect(node.all.filter(({ given }) => given.includes('waits'))).toEqual([])
  expect(waits).not.toHaveProperty('error')
})

test('a worker that its isolated slot gives up, and that ends once it has finished, counts as none that was lost', async () => {
  const { node, worker, asked } = await givingUp('change')
  const before = node.workers.metrics.workers?.ended
  worker.answer({ 0: 'result' })
  worker.say({ type: 'done' })
  await node.end(worker)
  expect(asked.answer).toBe('result')
  expect(node.strikes).toEqual([])
  expect(node.workers.metrics.workers?.ended).toEqual(before)
})
