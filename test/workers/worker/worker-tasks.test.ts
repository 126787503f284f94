import { expect, test } from 'vitest'
import { NO_WAL } from '../../../src/engine/wal-end.ts'
import { CellError } from '../../../src/errors.ts'
import type { FromWorker } from '../../../src/workers/protocol/protocol.ts'
import type { WorkerCells } from '../../../src/workers/worker/worker-cells.ts'
import { WorkerTasks } from '../../../src/workers/worker/worker-tasks.ts'
import { openTestDatabase } from '../../support/open-test-database.ts'

/** Tasks over a cell that there is, or one that can't be opened. */
function tasksOver(open: () => unknown, exists = true) {
  const sent: FromWorker[] = []
  const pool = { work: (_cellId: string, run: () => unknown) => run() }
  const local = { files: { exists: () => exists }, open, pool }
  return {
    sent,
    tasks: new WorkerTasks({ local } as unknown as WorkerCells, (message) => sent.push(message)),
  }
}

test('whether a transaction was committed is answered before anything that comes after the question is done (invariant 8)', () => {
  const database = openTestDatabase()
  const { sent, tasks } = tasksOver(() => database)
  tasks.run(1, { task: 'was-committed', cellId: 'c', before: NO_WAL })
  expect(sent).toEqual([{ type: 'reply', id: 1, value: false, error: undefined }])
})

test('that it can not be known is answered as soon', () => {
  const { sent, tasks } = tasksOver(() => {
    throw new CellError('cell_quarantined', 'The disk has failed.')
  })
  tasks.run(2, { task: 'was-committed', cellId: 'c', before: NO_WAL })
  expect(sent).toMatchObject([{ type: 'reply', id: 2, error: { code: 'cell_quarantined' } }])
})

test('of a cell that was deleted since, what was seen to be committed stays so, and nothing else was', () => {
  const { sent, tasks } = tasksOver(() => {
    throw new Error('There is no file.')
  }, false)
  tasks.run(3, { task: 'was-committed', cellId: 'c', before: undefined })
  tasks.run(4, { task: 'was-committed', cellId: 'c', before: NO_WAL })
  expect(sent).toMatchObject([
    { type: 'reply', id: 3, value: true },
    { type: 'reply', id: 4, value: false },
  ])
})
