import path from 'node:path'
import { expect, test } from 'vitest'
import { newCellId } from '../../../src/base/store-paths.ts'
import { tempDirectory } from '../../support/temp-directory.ts'
import { BatchWorker } from '../../support/workers/batch-worker.ts'

const KIB = 1_024
/** A view whose text has about so many bytes. */
const view = (name: string, bytes: number) => `CREATE VIEW ${name} AS SELECT '${'x'.repeat(bytes)}'`

function openWorker({ openCellsMax = 1_000, openSchemaBytesMax = 1_000 * KIB } = {}) {
  const owners = new Map<string, string>()
  const worker = new BatchWorker(
    path.join(tempDirectory('cellstore-schemas'), 'worker'),
    { openCellsMax },
    { of: (id) => owners.get(id) ?? null, openSchemaBytesMax },
  )
  const newCell = (owner: string) => {
    const id = newCellId()
    owners.set(id, owner)
    worker.cells.files.write(id)
    return id
  }
  const isOpen = (id: string) => worker.cells.pool.peek(id) !== undefined
  return { worker, newCell, isOpen }
}

test('the schemas of open cells are bounded together: an account that has most of them closes its own cells, and never a neighbour’s', () => {
  const { worker, newCell, isOpen } = openWorker()
  const neighbour = newCell('neighbour')
  worker.sql(neighbour, view('v', 50 * KIB))
  const own = Array.from({ length: 20 }, () => newCell('attacker'))
  for (const id of own) worker.sql(id, view('v', 90 * KIB))
  expect(isOpen(neighbour)).toBe(true)
  // The bound less the neighbour’s, in cells of 90 KiB; the ones used last.
  expect(own.map(isOpen)).toEqual(own.map((_, n) => n >= 10))
  for (const id of own) worker.sql(id, 'SELECT 1')
  expect(isOpen(neighbour)).toBe(true)
  expect(own.filter(isOpen)).toHaveLength(10)
})

test('a schema that grows while its cell is open makes room too', () => {
  const { worker, newCell, isOpen } = openWorker()
  const neighbour = newCell('neighbour')
  worker.sql(neighbour, view('v', 50 * KIB))
  const own = Array.from({ length: 20 }, () => newCell('attacker'))
  for (const id of own) worker.sql(id, 'CREATE TABLE t (a)')
  expect(own.every(isOpen)).toBe(true)
  for (const id of own) if (isOpen(id)) worker.sql(id, view('v', 90 * KIB))
  expect(isOpen(neighbour)).toBe(true)
  expect(own.filter(isOpen).length).toBeLessThan(20)
})

test.each(['ANALYZE', 'PRAGMA optimize(0x10002)'])(
  'statistics of the planner (%s) count as what SQLite keeps of them, from then on and in a cell that is opened',
  (analyze) => {
    const { worker, newCell, isOpen } = openWorker({ openSchemaBytesMax: 200 * KIB })
    const neighbour = newCell('neighbour')
    worker.sql(neighbour, view('v', 20 * KIB))
    const own = Array.from({ length: 6 }, () => newCell('attacker'))
    for (const id of own) {
      worker.sql(id, 'CREATE TABLE t (a)')
      worker.sql(id, 'CREATE INDEX i ON t (a)')
      // SQLite keeps up to 24 keys of each index, whole: here 2.4 MB.
      worker.sql(
        id,
        'WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 24) INSERT INTO t SELECT i || hex(zeroblob(50000)) FROM n',
      )
      worker.sql(id, analyze)
    }
    expect(isOpen(neighbour)).toBe(true)
    expect(own.map(isOpen)).toEqual([false, false, false, false, true, true])
    for (const id of own) worker.sql(id, 'SELECT 1')
    expect(isOpen(neighbour)).toBe(true)
    expect(own.filter(isOpen)).toHaveLength(2)
  },
)

test('of the cells that may be open, an account with many does not close those of one with few', () => {
  const { worker, newCell, isOpen } = openWorker({ openCellsMax: 10 })
  const few = Array.from({ length: 5 }, () => newCell('few'))
  for (const id of few) worker.sql(id, 'SELECT 1')
  const many = Array.from({ length: 30 }, () => newCell('many'))
  for (const id of many) worker.sql(id, 'SELECT 1')
  expect(few.every(isOpen)).toBe(true)
  expect(many.filter(isOpen)).toHaveLength(5)
})
