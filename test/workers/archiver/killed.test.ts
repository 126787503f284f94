import fs from 'node:fs'
import path from 'node:path'
import { beforeEach, expect, test } from 'vitest'
import { StorePaths } from '../../../src/base/files/store-paths.ts'
import { readOwner } from '../../../src/catalog/directory-lock.ts'
import { isAlive } from '../../support/processes.ts'
import { filesBelow } from '../../support/temp-directory.ts'
import { until } from '../../support/until.ts'
import { openWorkerStore, type WorkerStore } from '../../support/worker-store.ts'

const MIB = 1_048_576
/** Of workers, while backups run. */
const KILLS = 12

const sum = { op: 'sql', sql: 'SELECT count(*) AS n, sum(unicode(hex(b))) AS sum FROM t' } as const

let node: WorkerStore
let id: string
beforeEach(async () => {
  node = await openWorkerStore({ service: { limits: { blockMs: 60_000, killsBurst: 1_000 } } })
  id = node.store.createCell().id
  await node.service.execute(id, { op: 'sql', sql: 'CREATE TABLE t (b)' })
  for (let part = 0; part < 24; part++)
    await node.service.execute(id, { op: 'sql', sql: `INSERT INTO t VALUES (randomblob(${MIB}))` })
})

const archiver = () => readOwner(new StorePaths(node.directory))?.archiver?.pid

/** Kills the archiver twice, each time a transfer reaches a phase. */
function killArchiver(phase: string) {
  const killed = new Set<number>()
  const onProgress = (event: { phase: string }) => {
    const pid = archiver()
    if (event.phase !== phase || pid === undefined || killed.size === 2) return
    killed.add(pid)
    process.kill(pid, 'SIGKILL')
  }
  return { killed, onProgress }
}

function leftOvers(): string[] {
  const spool = path.join(node.directory, 'spool')
  const spooled = fs.existsSync(spool) ? filesBelow(spool) : []
  return [...spooled, ...filesBelow(node.directory).filter((file) => file.includes('incoming'))]
}

test('a backup and a restore whose archiver is killed twice are finished by the next one, and nothing is left', async () => {
  const { service } = node
  const { rows } = await service.execute(id, sum)
  const backup = killArchiver('compress')
  const { version } = await service.backups.snapshot(id, { onProgress: backup.onProgress })
  expect(backup.killed.size).toBe(2)
  await service.execute(id, { op: 'sql', sql: 'DELETE FROM t' })
  const restore = killArchiver('download')
  await service.backups.restore(id, { version, onProgress: restore.onProgress })
  expect(restore.killed.size).toBe(2)
  expect((await service.execute(id, sum)).rows).toEqual(rows)
  await expect.poll(leftOvers).toEqual([])
  expect(node.lostWorkers).toEqual([])
})

test('a new cell from a backup whose archiver is killed twice is whole, and of one that is given up nothing is left', async () => {
  const { service, store } = node
  const { rows } = await service.execute(id, sum)
  await service.backups.snapshot(id)
  const build = killArchiver('download')
  const made = await service.branchCell({ from: { cellId: id }, onProgress: build.onProgress })
  expect(build.killed.size).toBe(2)
  expect((await service.execute(made.id, sum)).rows).toEqual(rows)
  const always = () => process.kill(archiver() as number, 'SIGKILL')
  const lost = service.branchCell({ from: { cellId: id }, onProgress: always })
  await expect(lost).rejects.toMatchObject({ code: 'busy' })
  expect(store.cells().cells.map((each) => each.id)).toEqual([id, made.id])
  await expect.poll(leftOvers).toEqual([])
  const { cells } = new StorePaths(node.directory)
  expect(fs.readdirSync(cells).flatMap((part) => fs.readdirSync(path.join(cells, part)))).toHaveLength(2)
})

/** Kills the worker that holds the cell, or will: at a transfer's `at`th event, and once only. */
function killWorker(at: number) {
  let events = 0
  return () => {
    const [pid] = node.workers
    if (events++ === at && pid !== undefined) process.kill(pid, 'SIGKILL')
  }
}

test('backups are finished however often the worker of the cell is killed meanwhile', async () => {
  const { service } = node
  const { rows } = await service.execute(id, sum)
  let version = ''
  for (let round = 0; node.lostWorkers.length < KILLS; round++) {
    // The worker has work, and so counts as lost.
    await service.execute(id, sum)
    version = (await service.backups.snapshot(id, { onProgress: killWorker(round % 3) })).version
  }
  await service.execute(id, { op: 'sql', sql: 'DELETE FROM t' })
  await service.backups.restore(id, { version })
  expect((await service.execute(id, sum)).rows).toEqual(rows)
  await expect.poll(leftOvers).toEqual([])
})

test('a job that ends its archiver each time is given up, with a word on when to try again, and the cell serves', async () => {
  const onProgress = () => process.kill(archiver() as number, 'SIGKILL')
  const backup = node.service.backups.snapshot(id, { onProgress })
  await expect(backup).rejects.toMatchObject({ code: 'busy', details: { retryAfterMs: expect.any(Number) } })
  await until(() => archiver() !== undefined, 'another archiver is there')
  expect((await node.service.execute(id, sum)).rows).toHaveLength(1)
  expect((await node.service.backups.snapshot(id)).kind).toBe('snapshot')
  await expect.poll(leftOvers).toEqual([])
})

test('a node that stops lets backups end, and its archiver ends with it', async () => {
  const pid = archiver() as number
  const backup = node.service.backups.snapshot(id)
  await until(() => leftOvers().length > 0, 'the backup has begun')
  await Promise.all([backup, node.close()])
  expect(isAlive(pid)).toBe(false)
  expect(leftOvers()).toEqual([])
})

test('backups that have not ended at the deadline of a stop are cancelled, and leave nothing', async () => {
  const backup = node.service.backups.snapshot(id)
  backup.catch(() => {})
  await until(() => leftOvers().length > 0, 'the backup has begun')
  await node.service.close(0)
  await expect(backup).rejects.toMatchObject({ code: 'store_closed' })
  expect(leftOvers()).toEqual([])
})
