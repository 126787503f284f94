import fs from 'node:fs'
import path from 'node:path'
import { expect, onTestFinished, test, vi } from 'vitest'
import { newCellId, StorePaths } from '../../../src/base/files/store-paths.ts'
import { Transactions } from '../../../src/engine/commits/transactions.ts'
import { Checkpoints } from '../../../src/engine/wal/checkpoints.ts'
import { GET_ENTRY } from '../../../src/kv/queries.ts'
import { KvStatements } from '../../../src/kv/statements.ts'
import type { CellOperation } from '../../../src/service/operations.ts'
import type { BatchMessage } from '../../../src/workers/node/processes/worker-process.ts'
import { FakeClock } from '../../support/fake-clock.ts'
import { requestOf } from '../../support/request-bounds.ts'
import { tempDirectory } from '../../support/temp-directory.ts'
import { commitsIn } from '../../support/wal-commits.ts'
import { BatchWorker } from '../../support/workers/batch-worker.ts'

const MIB = 1_048_576

/** A worker with one cell, and what it has written of the batches that it was given. */
function openWorker() {
  const worker = new BatchWorker(path.join(tempDirectory('cellstore-batch'), 'worker'))
  const cellId = newCellId()
  worker.cells.files.write(cellId)
  const written: BatchMessage[] = []
  worker.onWrite = (messages) => written.push(...messages)
  const run = (operations: CellOperation[]) =>
    worker.run([operations.map((operation) => ({ cellId, operation }))])
  return { worker, cellId, written, run }
}

test('what look-ups have found leaves in parts of a few MiB, however many are in one batch (invariant 13)', async () => {
  const { worker, cellId, written, run } = openWorker()
  const value = '\u0001'.repeat(MIB)
  worker.cells.handle(cellId).kv.put('large', value)
  await run(Array.from({ length: 64 }, () => ({ op: 'kv.get', key: 'large' })))
  const parts = written.filter((message) => message.type === 'results').map(({ outcomes }) => outcomes)
  expect(Math.max(...parts.map(({ length }) => length))).toBeLessThanOrEqual(2)
  expect(parts.flat().map(([index]) => index)).toEqual(Array.from({ length: 64 }, (_, i) => i))
  expect(parts.flat().every(([, found]) => (found as { value: string }).value === value)).toBe(true)
})

test('a statement that has ended is not running any more, for the node, when the cell has to see to its log before a change', async () => {
  const { written, run } = openWorker()
  const heard: (BatchMessage | undefined)[] = []
  vi.spyOn(Checkpoints.prototype, 'assertRoom').mockImplementationOnce(() => {
    heard.push(written.at(-1))
  })
  onTestFinished(() => void vi.restoreAllMocks())
  await run([
    { op: 'sql', sql: 'SELECT 1' },
    { op: 'kv.put', key: 'a', value: 'b' },
  ])
  expect(heard).toEqual([{ type: 'overhead', index: 1 }])
})

test('the node hears for which operation a cell is opened, and that nobody’s time runs while fsyncs are awaited', async () => {
  const { worker, cellId, written } = openWorker()
  const other = newCellId()
  worker.cells.files.write(other)
  const operation: CellOperation = { op: 'kv.put', key: 'a', value: 'b' }
  await worker.run([[{ cellId, operation }], [{ cellId: other, operation }]])
  const told = written.filter((message) => message.type === 'overhead').map(({ index }) => index)
  // What takes long is announced a second time. Before the second cell is opened, the first one's change is committed.
  expect([...new Set(told)]).toEqual([0, undefined, 1])
  expect(told.at(-1)).toBeUndefined()
})

/** A worker with open cells, and what it does with one operation on each: what left together, and the commits that were made by then. */
function openWorkerOf(count: number) {
  const clock = new FakeClock()
  const worker = new BatchWorker(path.join(tempDirectory('cellstore-batch'), 'worker'), { clock })
  const cellIds = Array.from({ length: count }, () => {
    const cellId = newCellId()
    worker.cells.files.write(cellId)
    worker.cells.handle(cellId).kv.put('k', 'before')
    return cellId
  })
  const wals = cellIds.map((cellId) => new StorePaths(worker.directory).cell(cellId).wal)
  const before = wals.map(commitsIn)
  const commits = () => wals.map((wal, i) => commitsIn(wal) - (before[i] as number))
  const written: { messages: BatchMessage[]; commits: number[] }[] = []
  worker.onWrite = (messages) => written.push({ messages, commits: commits() })
  const run = (operations: readonly CellOperation[][]) =>
    worker.run(cellIds.map((cellId, i) => (operations[i] ?? []).map((operation) => ({ cellId, operation }))))
  const values = () => cellIds.map((cellId) => worker.cells.handle(cellId).kv.get('k'))
  return { worker, written, run, commits, values }
}

const put = (value: string, ifVersion?: string | null): CellOperation => ({
  op: 'kv.put',
  key: 'k',
  value,
  ifVersion,
})

const typesOf = (messages: readonly BatchMessage[]) => messages.map(({ type }) => type)

test('the results of puts into several cells leave the worker together, before the first COMMIT, and are told of once they are on disk', async () => {
  const { written, run, values } = openWorkerOf(3)
  const syncs = vi.spyOn(fs, 'fdatasyncSync')
  onTestFinished(() => void vi.restoreAllMocks())
  await run([[put('a')], [put('b'), put('bb')], [put('c')]])
  expect(written.map(({ messages, commits }) => [typesOf(messages), commits])).toEqual([
    [
      ['results', 'results', 'results', 'overhead'],
      [0, 0, 0],
    ],
    // There is no commit log yet.
    [
      ['unsynced', 'unsynced', 'unsynced'],
      [1, 1, 1],
    ],
    [
      ['committed', 'committed', 'committed', 'done'],
      [1, 1, 1],
    ],
  ])
  expect(values()).toEqual(['a', 'bb', 'c'])
  expect(syncs.mock.calls.length).toBeLessThanOrEqual(1)
})

test('a change of one row adds one page to the WAL: nothing in the cell names the transaction', async () => {
  const { worker, cellId, run } = openWorker()
  const database = worker.cells.pool.open(cellId)
  await run([put('first')])
  const { frames, salts } = database.walEnd()
  await run([put('second')])
  expect(database.walEnd()).toEqual({ salts, frames: frames + 1 })
})

test('a put that is refused commits nothing, and neither holds up nor undoes those into other cells (invariant 8)', async () => {
  const { written, run, values, commits } = openWorkerOf(3)
  await run([[put('a')], [put('b', null)], [put('c'), put('cc', '1')]])
  expect(commits()).toEqual([1, 0, 1])
  expect(values()).toEqual(['a', 'before', 'c'])
  const outcomes = written.flatMap(({ messages }) =>
    messages.flatMap((message) => (message.type === 'results' ? message.outcomes : [])),
  )
  const codes = outcomes.sort(([a], [b]) => a - b).map(([, , error]) => (error as { code?: string })?.code)
  expect(codes).toEqual([undefined, 'precondition_failed', undefined, 'precondition_failed'])
})

test('a statement does not run while puts into other cells wait for their COMMITs: they are committed before it', async () => {
  const { written, run, values } = openWorkerOf(3)
  await run([[put('a')], [{ op: 'sql', sql: 'CREATE TABLE t (a)' }], [put('c')]])
  const started = written.find(({ messages }) => typesOf(messages).includes('started'))
  expect(started?.commits).toEqual([1, 0, 0])
  expect(values()).toEqual(['a', 'before', 'c'])
})

test('if a COMMIT fails, the changes of its cell are refused, and those of other cells stay (invariant 8)', async () => {
  const { written, run, values, commits } = openWorkerOf(3)
  const commit = vi.spyOn(Transactions.prototype, 'commit')
  commit.mockImplementationOnce(() => {
    throw Object.assign(new Error('disk I/O error'), { code: 'SQLITE_IOERR' })
  })
  onTestFinished(() => void vi.restoreAllMocks())
  await run([[put('a')], [put('b')], [put('c')]])
  expect(commits()).toEqual([0, 1, 1])
  expect(values()).toEqual(['before', 'b', 'c'])
  const last = written.flatMap(({ messages }) => messages)
  expect(last.filter(({ type }) => type === 'committed')).toHaveLength(2)
  const refused = last.findLast((message) => message.type === 'results' && message.transaction === undefined)
  expect(refused).toMatchObject({ outcomes: [[0, null, {}]] })
})

test('an operation on an open cell is announced by nothing, however long the worker was idle', async () => {
  const { worker, written, run } = openWorker()
  await run([{ op: 'kv.get', key: 'a' }])
  written.length = 0
  const later = worker.clock.monotonic() + 60_000
  vi.spyOn(worker.clock, 'monotonic').mockReturnValue(later)
  onTestFinished(() => void vi.restoreAllMocks())
  await run([{ op: 'kv.get', key: 'a' }])
  expect(written.map(({ type }) => type)).toEqual(['results', 'done'])
})

test('an operation of any kind is announced if it starts some time after the last message', async () => {
  const { worker, written, run } = openWorker()
  await run([{ op: 'kv.get', key: 'a' }])
  written.length = 0
  let now = worker.clock.monotonic()
  vi.spyOn(worker.clock, 'monotonic').mockImplementation(() => (now += 3))
  onTestFinished(() => void vi.restoreAllMocks())
  await run(['a', 'b', 'c'].map((key) => ({ op: 'kv.get', key })))
  expect(written.some(({ type }) => type === 'overhead')).toBe(true)
})

test('a cell whose change is on disk is answered, however long the fsync of its neighbour takes (invariant 13)', async () => {
  const { worker, cellId, written } = openWorker()
  const other = newCellId()
  worker.cells.files.write(other)
  const ends: (() => void)[] = []
  const hold = (_descriptor: number, callback: fs.NoParamCallback) => void ends.push(() => callback(null))
  vi.spyOn(fs, 'fsync').mockImplementation(hold as typeof fs.fsync)
  onTestFinished(() => void vi.restoreAllMocks())
  const operation: CellOperation = { op: 'kv.put', key: 'a', value: 'b' }
  const running = worker.run([[{ cellId, operation }], [{ cellId: other, operation }]])
  const committed = () => written.filter(({ type }) => type === 'committed').length
  expect([ends.length, committed()]).toEqual([2, 0])
  ends[0]?.()
  await expect.poll(committed).toBe(1)
  ends[1]?.()
  await running
  expect([committed(), written.at(-1)?.type]).toEqual([2, 'done'])
})

test('a look-up that gets no memory, with which SQLite ends the transaction, fails alone (invariant 8)', async () => {
  const { worker, cellId, written, run } = openWorker()
  worker.cells.handle(cellId).kv.put('a', 'found')
  const database = worker.cells.pool.open(cellId)
  const getEntry = KvStatements.of(database).find(GET_ENTRY)
  const get = getEntry.get.bind(getEntry)
  vi.spyOn(getEntry, 'get').mockImplementation((key, now) => {
    if (key !== 'no memory') return get(key, now)
    database.exec('ROLLBACK')
    throw Object.assign(new Error('out of memory'), { name: 'SqliteError', code: 'SQLITE_NOMEM' })
  })
  await run(['a', 'no memory', 'a', 'a'].map((key) => ({ op: 'kv.get', key })))
  const outcomes = written.flatMap((message) => (message.type === 'results' ? message.outcomes : []))
  const told = outcomes.map(([, found, error]) => error?.code ?? (found as { value: string }).value)
  expect(told).toEqual(['found', 'result_memory_exceeded', 'found', 'found'])
  expect([database.inTransaction, database.busy]).toEqual([false, false])
})

/** A worker with a slice of 20 ms, whose clock stands still but for what `sleep` takes. */
function openSlicedWorker(sleeps: Record<string, number>) {
  const clock = new FakeClock()
  const worker = new BatchWorker(
    path.join(tempDirectory('cellstore-slice'), 'worker'),
    { clock },
    undefined,
    { sliceMs: 20, processorMs: () => clock.monotonic() },
  )
  const ids = [newCellId(), newCellId()] as const
  for (const id of ids) {
    worker.cells.files.write(id)
    worker.sql(id, 'CREATE TABLE t (n)')
  }
  const written: BatchMessage[] = []
  let texts: string[] = []
  worker.onWrite = (messages) => {
    written.push(...messages)
    // A statement's time passes when it starts.
    for (const each of messages)
      if (each.type === 'started') clock.advance(sleeps[texts[each.index] ?? ''] ?? 0)
  }
  const run = async (...cells: [cellId: string, texts: string[]][]) => {
    texts = cells.flatMap(([, own]) => own)
    written.length = 0
    await worker.run(
      cells.map(([cellId, own]) => own.map((sql) => ({ cellId, operation: { op: 'sql', sql } }))),
    )
    const { returned = [], spent = [] } = written.at(-1) as Extract<BatchMessage, { type: 'done' }>
    return { returned: returned.map((index) => texts[index]), spent }
  }
  const rows = (id: string) => worker.sql(id, 'SELECT n FROM t').map((row) => (row as { n: number }).n)
  return { worker, ids, written, run, rows }
}

const insert = (n: number) => `INSERT INTO t VALUES (${n})`

test('a batch commits what it has done when its time is over, and returns the rest, which has not run (invariant 8)', async () => {
  const { ids, written, run, rows } = openSlicedWorker({ [insert(2)]: 15, [insert(3)]: 15 })
  const [a, b] = ids
  expect(await run([a, [1, 2, 3, 4, 5].map(insert)], [b, [insert(6)]])).toEqual({
    returned: [insert(4), insert(5), insert(6)],
    spent: [[0, 30]],
  })
  expect([rows(a), rows(b)]).toEqual([[1, 2, 3], []])
  expect(written.filter(({ type }) => type === 'committed')).toHaveLength(1)
})

test('a batch that is done in time says nothing more than that, and what the worker has done so far', async () => {
  const { ids, written, run } = openSlicedWorker({})
  await run([ids[0], ['SELECT 1', insert(1)]], [ids[1], [insert(2)]])
  // With the two tables that were made before.
  const counts = { statements: 5, commits: 4, cellsOpen: 2 }
  expect(Object.entries(written.at(-1) ?? {})).toEqual([
    ['type', 'done'],
    ['counts', counts],
  ])
})

test('one operation runs, however long it takes, and changes of a cell are not held up by its later reads for good', async () => {
  const { ids, run, rows } = openSlicedWorker({ 'SELECT 1': 30, 'SELECT 2': 30, [insert(1)]: 30 })
  const [a] = ids
  expect((await run([a, [insert(1), 'SELECT 1', 'SELECT 2', insert(2)]])).returned).toEqual([
    'SELECT 2',
    insert(2),
  ])
  expect(rows(a)).toEqual([1])
  expect((await run([a, ['SELECT 2', insert(2)]])).returned).toEqual([])
  expect(rows(a)).toEqual([1, 2])
})

test.each(['by the batch', 'by a task before it'])(
  'a long log that a killed worker has left is cut before anything is written over it: the cell is opened %s',
  async (opened) => {
    const { worker, cellId, written, run } = openWorker()
    const { wal } = new StorePaths(worker.directory).cell(cellId)
    fs.writeFileSync(wal, Buffer.alloc(20 * MIB, 'x'))
    if (opened !== 'by the batch') worker.cells.pool.open(cellId)
    const sizes: number[] = []
    worker.onWrite = (messages) => {
      written.push(...messages)
      if (messages.some(({ type }) => type === 'results')) sizes.push(fs.statSync(wal).size)
    }
    await run([{ op: 'kv.put', key: 'k', value: 'v' }])
    expect(sizes).toHaveLength(1)
    expect(sizes[0]).toBeLessThan(MIB)
    expect(written[0]).toEqual({ type: 'overhead', index: 0 })
    expect(worker.cells.handle(cellId).kv.get('k')).toBe('v')
  },
)

test('a long request is read in its cell’s time, and not before there is time left to run it', async () => {
  const clock = new FakeClock()
  const directory = path.join(tempDirectory('cellstore-unread'), 'worker')
  const times = { sliceMs: 20, processorMs: () => clock.monotonic() }
  const worker = new BatchWorker(directory, { clock }, undefined, times)
  const [a, b] = [newCellId(), newCellId()]
  for (const id of [a, b]) {
    worker.cells.files.write(id)
    worker.sql(id, 'CREATE TABLE t (n)')
  }
  const long = (n: number) => {
    const body = `${JSON.stringify({ sql: insert(n) })}${' '.repeat(20_000)}`
    return { cellId: b, operation: requestOf('sql', body) }
  }
  const read = new Set<number>()
  let last: BatchMessage | undefined
  worker.onWrite = (messages) => {
    last = messages.at(-1)
    // A body's time passes after it is announced.
    for (const each of messages) {
      if (each.type !== 'overhead' || each.index === undefined || read.has(each.index)) continue
      read.add(each.index)
      clock.advance(6)
    }
  }
  await worker.run([[{ cellId: a, operation: { op: 'sql', sql: insert(0) } }], [long(1), long(2), long(3)]])
  expect(last).toMatchObject({ type: 'done', returned: [3], spent: [[1, 12]] })
  const rows = (id: string) => worker.sql(id, 'SELECT n FROM t').map((row) => (row as { n: number }).n)
  expect([rows(a), rows(b)]).toEqual([[0], [1, 2]])
})
