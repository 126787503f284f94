import { expect, test } from 'vitest'
import type { ScriptedWorker } from '../../support/workers/scripted-worker.ts'
import { A, B, HOLD_MS, ScriptedWorkers } from '../../support/workers/scripted-workers.ts'

const OTHERS = ['dddddddd-0000-4000-8000-000000000000', 'eeeeeeee-0000-4000-8000-000000000000'] as const

/** A node that flushes what an ended worker has written, as long as `flushing` is set. */
async function flushingNode(count: number) {
  const state: { flushing: Promise<void> | undefined } = { flushing: undefined }
  const node = await ScriptedWorkers.started({ count, finishFlush: () => state.flushing })
  /** The worker is killed in its COMMIT. @returns ends the flush */
  const endIn = async (worker: ScriptedWorker) => {
    const { promise, resolve } = Promise.withResolvers<void>()
    state.flushing = promise
    await node.end(worker)
    return async () => {
      state.flushing = undefined
      resolve()
      await node.settle()
    }
  }
  return { node, endIn }
}

/** A statement of the worker runs for so long that its worker ends. */
async function runTooLong(node: ScriptedWorkers, worker: ScriptedWorker): Promise<void> {
  worker.say({ type: 'started', index: 0 })
  await node.pass(HOLD_MS + 20)
}

test.each([false, true])(
  'a cell of which an ended worker has perhaps committed something goes nowhere before that is asked for (invariant 8); it was about to move: %s',
  async (isMoving) => {
    const { node, endIn } = await flushingNode(2)
    const account = { accountId: 'writer' }
    const change = node.sql(A, 'change', account)
    node.sql(OTHERS[1], 'neighbour')
    await node.settle()
    const first = node.busy
    first.say({ type: 'started', index: 0 })
    first.answer({ 0: 'done' }, 1)
    // Another cell of the account costs a worker: the account is on probation, and its cells belong elsewhere.
    node.sql(B, 'slow', account)
    await node.settle()
    const second = node.busy
    node.sql(OTHERS[0], 'waits')
    await runTooLong(node, second)
    if (isMoving) node.sql(A, 'later', account)
    await node.end(second)
    const endFlush = await endIn(first)
    node.sql(A, 'during', account)
    await node.settle()
    await node.pass(50)
    const given = node.asked.filter((worker) => worker !== first && worker.given.includes('during'))
    expect(given).toHaveLength(0)
    await endFlush()
    const asked = node.all.filter((worker) => worker.tasks.some(({ task }) => task.task === 'was-committed'))
    expect(asked).toHaveLength(1)
    expect(asked[0]?.given).not.toContain('change')
    asked[0]?.reply('was-committed', true)
    await node.settle()
    expect(change.answer).toBe('done')
  },
)

test('an isolated slot whose worker has ended gets no other before it was asked for what that has done', async () => {
  const { node, endIn } = await flushingNode(1)
  node.sql(A, 'slow')
  node.sql(B, 'neighbour')
  await node.settle()
  const shared = node.busy
  await runTooLong(node, shared)
  await node.end(shared)
  await node.settle()
  const isolated = node.all.find(
    (worker) => !worker.isEnded && worker.given.includes('slow'),
  ) as ScriptedWorker
  isolated.answer({ 0: 'done' }, 1)
  const endFlush = await endIn(isolated)
  await node.pass(300)
  void node.workers.runTask({ task: 'look-at-log', cellId: A }, {}).catch(() => {})
  await node.settle()
  expect(node.asked.flatMap(({ tasks }) => tasks.map(({ task }) => task.task))).toEqual([])
  await endFlush()
  const next = node.asked.find(({ tasks }) => tasks.length > 0)
  expect(next?.tasks.map(({ task }) => task.task)).toEqual(['was-committed', 'look-at-log'])
})
