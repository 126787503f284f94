import fs from 'node:fs'
import path from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { StorePaths } from '../../../src/base/files/store-paths.ts'
import { CellError } from '../../../src/errors.ts'
import { tempDirectory } from '../../support/temp-directory.ts'
import { openWorkerStore, WorkerStore } from '../../support/worker-store.ts'

const MIB = 1_048_576

const sum = { op: 'sql', sql: 'SELECT count(*) AS n, sum(unicode(hex(b))) AS sum FROM t' } as const

/** Fills a cell with random bytes, backs it up, and returns its checksum. */
async function filled({ service, store }: WorkerStore, mebibytes: number) {
  const { id } = store.createCell()
  await service.execute(id, { op: 'sql', sql: 'CREATE TABLE t (b)' })
  for (let part = 0; part < mebibytes; part++)
    await service.execute(id, { op: 'sql', sql: `INSERT INTO t VALUES (randomblob(${MIB}))` })
  const { rows } = await service.execute(id, sum)
  await service.backups.snapshot(id)
  return { id, rows }
}

test.each([
  [1, 256],
  [2, 256],
  [2, 300],
  [3, 1_024],
])(
  'restores of %i cells over 4 MiB at once, each on a thread, end no worker that has %i MiB of memory',
  async (count, memory) => {
    const node = await openWorkerStore({ service: { limits: { memoryMax: memory * MIB, blockMs: 60_000 } } })
    const cells = []
    for (let i = 0; i < count; i++) cells.push(await filled(node, 6))
    for (const { id } of cells) await node.service.execute(id, { op: 'sql', sql: 'DELETE FROM t' })
    await Promise.all(cells.map(({ id }) => node.service.backups.restore(id)))
    const left = fs.readdirSync(node.store.paths.spool).filter((name) => name.startsWith('restore-'))
    expect(left).toEqual([])
    for (const { id, rows } of cells) expect((await node.service.execute(id, sum)).rows).toEqual(rows)
    expect(node.lostWorkers).toEqual([])
  },
)

test('after a total loss, many cells over 4 MiB that are asked for at once all come back, and no worker ends', async () => {
  const folder = tempDirectory('cellstore-workers')
  const limits = { memoryMax: 256 * MIB, blockMs: 60_000 }
  const first = await WorkerStore.start({ folder, service: { limits } })
  const cells = []
  for (let i = 0; i < 8; i++) cells.push(await filled(first, 5))
  await first.close()
  // With local.db, a start would take the disk of the cells for not mounted.
  const { cells: lost, localState } = new StorePaths(path.join(folder, 'data'))
  for (const each of [lost, localState]) fs.rmSync(each, { recursive: true })
  const node = await WorkerStore.start({ folder, service: { limits } })
  onTestFinished(() => node.close())
  const answers = await Promise.all(cells.map(({ id }) => node.service.execute(id, sum)))
  expect(answers.map(({ rows }) => rows)).toEqual(cells.map(({ rows }) => rows))
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
