import { expect, test } from 'vitest'
import { A, ScriptedWorkers } from '../../support/workers/scripted-workers.ts'

test('a start ends when the node is stopped before its workers are ready (invariant 13)', async () => {
  const node = new ScriptedWorkers()
  node.startsAtOnce = false
  const started = expect(node.workers.start()).rejects.toMatchObject({ code: 'shutting_down' })
  const stopped = node.workers.stop(10_000)
  for (const worker of node.all) worker.end()
  await Promise.all([started, stopped])
})

test('a start ends when the node is stopped while only some of its workers are ready', async () => {
  const node = new ScriptedWorkers({ count: 2 })
  node.startsAtOnce = false
  const started = expect(node.workers.start()).rejects.toMatchObject({ code: 'shutting_down' })
  node.all[0]?.becomeReady()
  await node.settle()
  const stopped = node.workers.stop(10_000)
  for (const worker of node.all) worker.end()
  await Promise.all([started, stopped])
})

test('a task for a stopped node is refused at once', async () => {
  const node = await ScriptedWorkers.started()
  const stopped = node.workers.stop(10_000)
  for (const worker of node.all) worker.end()
  await stopped
  const late = node.workers.runTask({ task: 'collect-expired', cellId: A })
  await expect(late).rejects.toMatchObject({ code: 'shutting_down' })
})
