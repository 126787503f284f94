import fs from 'node:fs'
import { expect, test } from 'vitest'
import { CellError } from '../../src/errors.ts'
import { openWorkerStore } from '../support/worker-store.ts'

const MIB = 1_048_576

test.each([
  { cells: 1, memoryMax: 256 * MIB, when: 'with the smallest memory limit' },
  { cells: 3, memoryMax: 1_024 * MIB, when: 'three at the same time' },
])('a worker restores large cells, $when, and does not end', async ({ cells: count, memoryMax }) => {
  const node = await openWorkerStore({ service: { workers: 1, limits: { memoryMax } } })
  const cells = Array.from({ length: count }, () => node.store.createCell().id)
  for (const cell of cells) {
    // Large enough to be restored on a thread.
    await node.service.execute(cell, { op: 'sql', sql: 'CREATE TABLE t AS SELECT randomblob(5000000) AS x' })
    await node.service.backups.snapshot(cell)
  }
  await Promise.all(cells.map((cell) => node.service.backups.restore(cell)))
  expect(fs.readdirSync(node.store.paths.spool).filter((name) => name.startsWith('restore-'))).toEqual([])
  for (const cell of cells) {
    const { rows } = await node.service.execute(cell, { op: 'sql', sql: 'SELECT length(x) AS bytes FROM t' })
    expect(rows).toEqual([{ bytes: 5_000_000 }])
  }
  expect(node.lostWorkers).toEqual([])
})

test('a restore that is refused for its size changes nothing', async () => {
  const node = await openWorkerStore()
  const { id } = node.store.createCell()
  await node.service.execute(id, { op: 'sql', sql: 'CREATE TABLE t AS SELECT zeroblob(500000) AS x' })
  await node.service.backups.snapshot(id)
  await node.service.execute(id, { op: 'sql', sql: 'DROP TABLE t' })
  const { version } = await node.service.backups.snapshot(id)
  const asked: number[] = []
  const permit = {
    check: () => {},
    checkBuilt: (bytes: number) => {
      asked.push(bytes)
      throw new CellError('quota_exceeded', 'It is too large.', { limit: 1 })
    },
  }
  const [, large] = (await node.service.backups.list(id, {})).backups
  await expect(
    node.service.backups.restore(id, { permit, version: large?.version ?? '' }),
  ).rejects.toMatchObject({
    code: 'quota_exceeded',
    details: { limit: 1 },
  })
  expect(asked).toEqual([expect.any(Number)])
  expect(asked[0]).toBeGreaterThan(500_000)
  expect((await node.service.backups.list(id, {})).backups[0]?.version).toBe(version)
  await expect(node.service.execute(id, { op: 'sql', sql: 'SELECT x FROM t' })).rejects.toThrow(
    'no such table',
  )
})
