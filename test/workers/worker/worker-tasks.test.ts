import { execFileSync } from 'node:child_process'
import fs from 'node:fs'
import path from 'node:path'
import { beforeEach, describe, expect, onTestFinished, test, vi } from 'vitest'
import { newCellId, StorePaths } from '../../../src/base/files/store-paths.ts'
import { openConnection } from '../../../src/engine/sqlite.ts'
import { NO_WAL, type WalEnd } from '../../../src/engine/wal/wal-end.ts'
import { CellError } from '../../../src/errors.ts'
import type { CellOperation } from '../../../src/service/operations.ts'
import type { FromWorker } from '../../../src/workers/protocol/protocol.ts'
import type { WorkerCells } from '../../../src/workers/worker/worker-cells.ts'
import { WorkerTasks } from '../../../src/workers/worker/worker-tasks.ts'
import { openTestDatabase } from '../../support/open-test-database.ts'
import { tempDirectory } from '../../support/temp-directory.ts'
import { BatchWorker } from '../../support/workers/batch-worker.ts'

const noBatch = () => undefined

/** Tasks over a cell that there is, or one that can't be opened. */
function tasksOver(open: () => unknown, exists = true) {
  const sent: FromWorker[] = []
  const pool = { work: (_cellId: string, run: () => unknown) => run() }
  const local = { files: { exists: () => exists, hasLogFile: () => true }, open, pool }
  return {
    sent,
    tasks: new WorkerTasks({
      cells: { local } as unknown as WorkerCells,
      send: (message) => sent.push(message),
      batch: noBatch,
    }),
  }
}

test('whether a transaction was committed is answered before anything that comes after the question is done (invariant 8)', () => {
  const database = openTestDatabase()
  const { sent, tasks } = tasksOver(() => database)
  tasks.run(1, { task: 'was-committed', cellId: 'c', before: NO_WAL })
  expect(sent).toMatchObject([{ type: 'reply', id: 1, value: false, error: undefined }])
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

describe('After a worker was killed around a COMMIT, the next one says', () => {
  let killed: { before: WalEnd; beforeCommit: string; afterCommit: string }
  let cellId: string
  beforeEach(async () => {
    const home = tempDirectory('cellstore-killed')
    const worker = new BatchWorker(path.join(home, 'worker'))
    cellId = newCellId()
    worker.cells.files.write(cellId)
    let before: WalEnd | undefined
    const copies: string[] = []
    worker.onWrite = (messages) => {
      for (const each of messages)
        if (each.type === 'results' && each.transaction !== undefined) before = each.transaction.before
      const copy = path.join(home, `copy-${copies.length}`)
      // By another process: closing a file here would drop the locks on it (invariant 4).
      execFileSync('cp', ['-r', worker.directory, copy])
      fs.rmSync(new StorePaths(copy).cell(cellId).sharedMemory, { force: true })
      copies.push(copy)
    }
    worker.sql(cellId, 'CREATE TABLE t (n)')
    copies.length = 0
    await worker.run([[{ cellId, operation: { op: 'sql', sql: 'INSERT INTO t VALUES (1)' } }]])
    const [beforeCommit, afterCommit] = copies.slice(-2)
    killed = { before, beforeCommit, afterCommit } as typeof killed
  })

  /** @param program runs what another program does with the cell's database in between */
  function askedAfter(copy: string, program?: (database: string) => void): unknown {
    program?.(new StorePaths(copy).cell(cellId).database)
    const next = new BatchWorker(copy)
    const sent: FromWorker[] = []
    const tasks = new WorkerTasks({
      cells: { local: next.cells } as WorkerCells,
      send: (message) => sent.push(message),
      batch: noBatch,
    })
    tasks.run(1, { task: 'was-committed', cellId, before: killed.before })
    return sent.map((message) => (message.type === 'reply' ? message.value : message))
  }

  test('whether the COMMIT was made', () => {
    expect(askedAfter(killed.beforeCommit)).toEqual([false])
    expect(askedAfter(killed.afterCommit)).toEqual([true])
  })

  test('that nobody can tell, if another program was the last one to close the cell: it has moved the WAL into the database (invariant 8)', () => {
    const closes = (database: string) => {
      const program = openConnection(database)
      program.prepare('SELECT count(*) FROM sqlite_schema').get()
      program.close()
    }
    expect(askedAfter(killed.beforeCommit, closes)).toEqual([null])
    expect(askedAfter(killed.afterCommit, closes)).toEqual([null])
  })
})

test('a cell is restored once the batch under way has told what it has committed: what it tells later would count as stored with the restored cell', async () => {
  const worker = new BatchWorker(path.join(tempDirectory('cellstore-tasks'), 'worker'))
  const cellIds = [newCellId(), newCellId()]
  for (const each of cellIds) worker.cells.files.write(each)
  const told: string[] = []
  worker.onWrite = (messages) => told.push(...messages.map(({ type }) => type))
  const ends: (() => void)[] = []
  const hold = (_descriptor: number, callback: fs.NoParamCallback) => void ends.push(() => callback(null))
  vi.spyOn(fs, 'fsync').mockImplementation(hold as typeof fs.fsync)
  onTestFinished(() => void vi.restoreAllMocks())
  const operation: CellOperation = { op: 'kv.put', key: 'a', value: 'b' }
  const batch = worker.run(cellIds.map((cellId) => [{ cellId, operation }]))
  const cells = { local: worker.cells, install: () => told.push('installed') } as unknown as WorkerCells
  const tasks = new WorkerTasks({
    cells,
    send: ({ type }) => told.push(type),
    batch: () => batch,
  })
  const options = { isNewest: true, version: 'restored', last: '', line: 0 }
  tasks.run(1, { task: 'install', cellId: cellIds[0] as string, options })
  for (const end of ends) end()
  await expect.poll(() => told.at(-1)).toBe('reply')
  expect(told.slice(-5)).toEqual(['committed', 'committed', 'done', 'installed', 'reply'])
})

/** Tasks over cells that are never open, and in which order they were cut and given away. */
function tasksInTurns() {
  const done: string[] = []
  const cells = {
    cut: (cellId: string) => {
      done.push(`cut ${cellId}`)
    },
    closeForMove: (cellId: string) => done.push(`close ${cellId}`) > 0,
    beginRestore: (cellId: string) => void done.push(`restore ${cellId}`),
  }
  const sent: FromWorker[] = []
  const send = (message: FromWorker) => void sent.push(message)
  const tasks = new WorkerTasks({
    cells: cells as unknown as WorkerCells,
    send,
    batch: noBatch,
  })
  const cut = (id: number, cellId: string) =>
    tasks.run(id, { task: 'cut', cellId, call: { method: 'end', args: [] } })
  return { tasks, done, sent, cut }
}

const turn = () => new Promise((resolve) => setImmediate(resolve))

test('of the tasks that hold a worker up, one runs in each turn of the event loop: a batch that comes waits for one of them', async () => {
  const { tasks, done, cut } = tasksInTurns()
  for (const [i, cellId] of ['a', 'b', 'c'].entries()) cut(i, cellId)
  tasks.run(3, { task: 'close', cellId: 'd' })
  expect(done).toEqual([])
  const seen: string[][] = []
  for (let i = 0; i < 4; i++) {
    await turn()
    seen.push([...done])
  }
  const all = ['cut a', 'cut b', 'cut c', 'close d']
  expect(seen).toEqual(all.map((_, i) => all.slice(0, i + 1)))
})

test('what comes for one cell runs in its order, whoever waits before it', async () => {
  const { tasks, done, cut } = tasksInTurns()
  cut(1, 'a')
  cut(2, 'b')
  cut(3, 'b')
  // A task that is answered at once, and then a batch.
  tasks.run(4, { task: 'begin-restore', cellId: 'b' })
  expect(done).toEqual(['cut b', 'cut b', 'restore b'])
  tasks.before('c')
  expect(done).toHaveLength(3)
  tasks.before('a')
  expect(done.at(-1)).toBe('cut a')
  // Nothing runs twice, and what comes next still has a turn.
  cut(5, 'e')
  await turn()
  await turn()
  expect(done.slice(4)).toEqual(['cut e'])
})

test('a batch lets the tasks of its cells go first, and one of the others: after a statement without end there may be no turn for them', () => {
  const { tasks, done, cut } = tasksInTurns()
  for (const [i, cellId] of ['a', 'b', 'c', 'd'].entries()) cut(i, cellId)
  tasks.beforeBatch(['c', 'none'])
  expect(done).toEqual(['cut c', 'cut a'])
  tasks.beforeBatch([])
  expect(done).toEqual(['cut c', 'cut a', 'cut b'])
})

test('a cell with a task that waits is in use, so that its record is kept; a task behind it does not keep the cell open', async () => {
  const { tasks, done, sent, cut } = tasksInTurns()
  tasks.run(1, { task: 'close', cellId: 'a' })
  cut(2, 'a')
  expect(tasks.isBusyWith('a')).toBe(true)
  await turn()
  await turn()
  expect(tasks.isBusyWith('a')).toBe(false)
  expect(done).toEqual(['close a', 'cut a'])
  expect(sent.map((message) => message.type === 'reply' && message.value)).toEqual([true, undefined])
})
