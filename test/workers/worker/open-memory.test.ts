import path from 'node:path'
import { expect, test } from 'vitest'
import { newCellId } from '../../../src/base/files/store-paths.ts'
import { FakeClock } from '../../support/fake-clock.ts'
import { tempDirectory } from '../../support/temp-directory.ts'
import { BatchWorker } from '../../support/workers/batch-worker.ts'

const KIB = 1_024
const MIB = 1_024 * KIB
/** A view whose text has about so many bytes: opened, it counts 32 times. */
const view = (name: string, bytes: number) => `CREATE VIEW ${name} AS SELECT '${'x'.repeat(bytes)}'`

/** A worker that uses more memory at each look than at the one before, and looks before each statement. */
function openWorker({ openCellsMax = 1_000, bytesMax = 32 * MIB, isFull = true } = {}) {
  const owners = new Map<string, string>()
  const clock = new FakeClock()
  let used = 0
  const usedBytes = () => (isFull ? bytesMax + ++used * MIB : bytesMax)
  const worker = new BatchWorker(
    path.join(tempDirectory('cellstore-memory'), 'worker'),
    { openCellsMax, clock },
    {
      of: (id) => owners.get(id) ?? null,
      memory: { bytesMax, nearEndBytes: bytesMax + 10 * MIB, usedBytes },
    },
  )
  const newCells = (owner: string, count: number) =>
    Array.from({ length: count }, () => {
      const id = newCellId()
      owners.set(id, owner)
      worker.cells.files.write(id)
      return id
    })
  const sql = async (cellId: string, ...texts: string[]) => {
    for (const text of texts) {
      clock.advance(10)
      await worker.run([[{ cellId, operation: { op: 'sql', sql: text } }]])
    }
  }
  const isOpen = (id: string) => worker.cells.pool.peek(id) !== undefined
  return { worker, newCells, isOpen, sql }
}

/** A neighbour's cell is used, and then some of an account. What that account does must not close the neighbour's. */
async function attack(
  { newCells, sql, isOpen }: ReturnType<typeof openWorker>,
  count: number,
  ...texts: string[]
): Promise<number> {
  const [neighbour] = newCells('neighbour', 1) as [string]
  await sql(neighbour, view('v', 50 * KIB))
  const own = newCells('attacker', count)
  for (const id of own) await sql(id, ...texts)
  await sql(neighbour, 'SELECT 1')
  expect(isOpen(neighbour)).toBe(true)
  return own.filter(isOpen).length
}

test('the schemas of open cells are bounded together: an account that has most of them closes its own cells, and never a neighbour’s', async () => {
  const worker = openWorker()
  // 32 MiB less the neighbour's, in cells of 3 MiB.
  expect(await attack(worker, 20, view('v', 90 * KIB))).toBe(9)
})

test.each(['ANALYZE', 'PRAGMA optimize(0x10002)'])(
  'statistics of the planner (%s) count as what SQLite keeps of them',
  async (analyze) => {
    const worker = openWorker({ bytesMax: 12 * MIB })
    // SQLite keeps up to 24 keys of each index, whole: here 2.4 MB.
    const rows =
      'WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 24) INSERT INTO t SELECT i || hex(zeroblob(50000)) FROM n'
    const texts = ['CREATE TABLE t (a)', 'CREATE INDEX i ON t (a)', rows, analyze]
    expect(await attack(worker, 6, ...texts)).toBe(2)
  },
)

test('the prepared statements of open cells count as what they may take', async () => {
  const statement = (n: number) => `SELECT ${n}, '${'x'.repeat(50 * KIB)}'`
  // 64 bytes for each character of two texts: 6.4 MiB a cell.
  expect(await attack(openWorker(), 8, statement(1), statement(2))).toBe(4)
})

test('the pages of open cells count as what the file has, up to the cache of a cell', async () => {
  const worker = openWorker({ bytesMax: 12 * MIB })
  expect(await attack(worker, 12, 'CREATE TABLE t (a)', 'INSERT INTO t VALUES (zeroblob(4000000))')).toBe(7)
})

test('as long as the process uses little memory, no cell is closed for what it might take', async () => {
  const worker = openWorker({ isFull: false })
  expect(await attack(worker, 20, view('v', 90 * KIB))).toBe(20)
})

test('only a process whose memory may be at its end names the account whose open cells take most of it', async () => {
  const worker = openWorker()
  await attack(worker, 3, view('v', 90 * KIB))
  expect(worker.worker.cells.pool.heaviestOwner).toBeUndefined()
  await attack(worker, 7, view('v', 90 * KIB))
  expect(worker.worker.cells.pool.heaviestOwner).toBe('attacker')
})

test('no account is named for memory that something else takes: its open cells fit into the bound', async () => {
  const worker = openWorker()
  const [cell] = worker.newCells('innocent', 1) as [string]
  for (let look = 0; look < 15; look++) await worker.sql(cell, 'SELECT 1')
  expect(worker.worker.cells.pool.heaviestOwner).toBeUndefined()
})

test('of the cells that may be open, an account with many does not close those of one with few', async () => {
  const { newCells, isOpen, sql } = openWorker({ openCellsMax: 10 })
  const few = newCells('few', 5)
  for (const id of few) await sql(id, 'SELECT 1')
  const many = newCells('many', 30)
  for (const id of many) await sql(id, 'SELECT 1')
  expect(few.every(isOpen)).toBe(true)
  expect(many.filter(isOpen)).toHaveLength(5)
})
