import { expect, test } from 'vitest'
import { A, B, BLOCK_MS, ScriptedWorkers } from '../../support/workers/scripted-workers.ts'

const D = 'dddddddd-0000-4000-8000-000000000000'
const E = 'eeeeeeee-0000-4000-8000-000000000000'

test('a cell that is about to leave a worker that is killed with its COMMIT is opened by one worker only (invariant 2)', async () => {
  const node = await ScriptedWorkers.started({ count: 2 })
  const x = { accountId: 'x' }
  const change = node.sql(A, 'change', x)
  node.sql(E, 'endless', { accountId: 'e' })
  await node.settle()
  const first = node.busy
  expect(first.given).toEqual(['change', 'endless'])
  first.say({ type: 'started', index: 0 })
  first.answer({ 0: 'done' }, 1)
  // The account costs another worker, so that its cells are to leave their home workers.
  node.sql(B, 'slow', x)
  await node.settle()
  const second = node.busy
  node.sql(D, 'other')
  second.say({ type: 'started', index: 0 })
  await node.pass(BLOCK_MS + 20)
  expect([first.isKilled, second.isKilled]).toEqual([false, true])
  const later = node.sql(A, 'later', x)
  await node.end(second)
  first.say({ type: 'started', index: 1 })
  await node.pass(BLOCK_MS + 20)
  expect(first.isKilled).toBe(true)
  await node.end(first)
  const asked = node.all.filter(
    ({ isEnded, tasks }) => !isEnded && tasks.some(({ task }) => task.cellId === A),
  )
  expect(asked).toHaveLength(1)
  asked[0]?.reply('was-committed', true)
  await node.settle()
  expect(change.answer).toBe('done')
  expect(asked[0]?.given).toEqual(['slow'])
  asked[0]?.say({ type: 'done' })
  expect(asked[0]?.given).toEqual(['endless', 'later'])
  expect(later).not.toHaveProperty('error')
})
