import fs from 'node:fs'
import path from 'node:path'
import { expect, test } from 'vitest'
import { CellError } from '../../src/errors.ts'
import { StoredBytesQuota } from '../../src/http/quotas/stored-bytes-quota.ts'
import type { CellService } from '../../src/service/cell-service.ts'
import type { CellOperation } from '../../src/service/operations.ts'
import { Bench } from '../support/http/bench.ts'
import { viaFetch } from '../support/http/transports.ts'

const MAX = 400_000
const VALUE = 'v'.repeat(20_000)

async function openBench(): Promise<Bench> {
  const bench = await Bench.open(viaFetch, {
    store: { quotas: { bytesMax: MAX }, checkpointBytes: 65_536 },
  })
  // Each look at the time is a second later: a cell is measured at most once a second.
  let time = 0
  bench.clock.monotonic = () => (time += 1_000)
  return bench
}

const put = (key: string, value = VALUE) => ({
  method: 'PUT',
  path: `/v1/databases/{cell}/kv/${key}`,
  body: { value },
})
const sql = (text: string) => ({ method: 'POST', path: '/v1/databases/{cell}/sql', body: { sql: text } })

/** Puts entries until one is refused. @returns how many there are */
async function fill(bench: Bench): Promise<number> {
  for (let i = 0; i < 100; i++) {
    bench.clock.pass(1_000)
    const { status, json } = await bench.send(put(`k${i}`))
    if (status === 200) continue
    expect({ status, json }).toMatchObject({
      status: 403,
      json: {
        code: 'quota_exceeded',
        limit: MAX,
        detail: expect.stringMatching(
          /stores or is about to store \d+ bytes, and this needs more than the rest; quotas\.bytesMax is 400000\./,
        ),
      },
    })
    const { usage } = json as { usage: number }
    expect(usage).toBeGreaterThan(MAX - 2 * VALUE.length)
    return i
  }
  throw new Error('Nothing was refused')
}

test('An account over its quota of bytes reads and deletes, uses what that frees, and makes no cell; others are not concerned', async () => {
  const bench = await openBench()
  const first = bench.cell
  await bench.send(sql('CREATE TABLE t (a)'))
  expect(await fill(bench)).toBeGreaterThan(15)
  // What is left is less than a new cell takes.
  for (let i = 0; i < 6; i++) await bench.send(put(`page ${i}`, 'v'.repeat(3_000)))
  expect((await bench.send(put('small', 'x'))).status).toBe(200)
  expect((await bench.send(sql('SELECT count(*) FROM cell_kv'))).status).toBe(200)
  expect((await bench.send(sql(`INSERT INTO t VALUES (zeroblob(90000))`))).json).toMatchObject({
    code: 'quota_exceeded',
  })
  const batch = {
    operations: [{ kv: 'delete', key: 'none' }, { sql: 'INSERT INTO t VALUES (zeroblob(90000))' }],
  }
  expect(
    (await bench.send({ method: 'POST', path: '/v1/databases/{cell}/batch', body: batch })).json,
  ).toMatchObject({
    code: 'quota_exceeded',
    index: 1,
  })
  expect((await bench.send({ method: 'POST', path: '/v1/databases', body: {} })).json).toMatchObject({
    code: 'quota_exceeded',
    limit: MAX,
  })
  bench.newCell()
  expect((await bench.send(put('k'))).status).toBe(403)
  bench.newCell(bench.strangerId)
  expect((await bench.send({ ...put('k'), key: bench.strangerKey })).status).toBe(200)
  bench.cell = first
  expect((await bench.send({ method: 'DELETE', path: '/v1/databases/{cell}/kv/k0' })).status).toBe(200)
  expect((await bench.send(put('other'))).status).toBe(200)
  await bench.close()
})

test('What moves from the logs of cells into their files counts a second later, if nobody uses them again, too', async () => {
  const bench = await Bench.open(viaFetch, { store: { quotas: { bytesMax: MAX } } })
  let time = 0
  bench.clock.monotonic = () => time
  for (let i = 0; i < 3; i++) {
    bench.newCell()
    expect((await bench.send(sql('CREATE TABLE t (a)'))).status).toBe(200)
    expect((await bench.send(sql('INSERT INTO t VALUES (zeroblob(200000))'))).status).toBe(200)
    await bench.store.backups.snapshot(bench.cell)
  }
  time += 1_000
  expect((await bench.send({ method: 'POST', path: '/v1/databases', body: {} })).json).toMatchObject({
    code: 'quota_exceeded',
    usage: expect.toSatisfy((usage: number) => usage > 600_000),
  })
  await bench.close()
})

test('Changes that arrive together have together no more than the quota, and all that fits is kept', async () => {
  const bench = await openBench()
  const cells = [bench.cell, bench.newCell(), bench.newCell()]
  const at = (cell: string, request: ReturnType<typeof sql>) => ({
    ...request,
    path: request.path.replace('{cell}', cell),
  })
  for (const cell of cells) expect((await bench.send(at(cell, sql('CREATE TABLE t (a)')))).status).toBe(200)
  const insert = sql('INSERT INTO t VALUES (zeroblob(100000))')
  const replies = await Promise.all(
    [...cells, ...cells, ...cells, ...cells].map((cell) => bench.send(at(cell, insert))),
  )
  const kept = replies.filter(({ status }) => status === 200).length
  expect(kept).toBe(3)
  for (const { status, json } of replies)
    if (status !== 200) expect(json).toMatchObject({ code: 'quota_exceeded', limit: MAX })
  await bench.store.close()
  const files = cells.map((cell) => fs.statSync(bench.data.paths.cell(cell).database).size)
  expect(files.reduce((sum, bytes) => sum + bytes)).toBeLessThanOrEqual(MAX)
  await bench.close()
})

test('A change that takes most of what is left, and small ones beside it, all succeed', async () => {
  const bench = await openBench()
  await bench.send(sql('CREATE TABLE t (a)'))
  const large = sql('INSERT INTO t VALUES (zeroblob(250000))')
  const small = Array.from({ length: 20 }, (_, i) => put(`k${i}`, 'v'.repeat(1_000)))
  const replies = await Promise.all([...small, large, ...small].map((request) => bench.send(request)))
  expect(replies.map(({ status }) => status)).toEqual(Array(41).fill(200))
  await bench.close()
})

test('What a killed process has left in a log counts, until the cell is used again and the log is cut', async () => {
  const options = { quotas: { bytesMax: MAX }, checkpointBytes: 65_536 }
  const bench = await Bench.open(viaFetch, { store: options })
  await bench.send(put('k'))
  await bench.store.close()
  // As if it had been killed in a long transaction: nothing in it is a commit.
  fs.writeFileSync(path.join(bench.cellDirectory, 'cell.db-wal'), Buffer.alloc(2 * MAX, 'x'))
  await bench.serve(await bench.reopen(options), viaFetch)
  let time = 0
  bench.clock.monotonic = () => time
  const { cell: killed } = bench
  const other = bench.newCell()
  await bench.send(put('k'))
  expect((await bench.send(put('k'))).json).toMatchObject({ code: 'quota_exceeded' })
  bench.cell = killed
  expect((await bench.send({ method: 'DELETE', path: '/v1/databases/{cell}/kv/k' })).status).toBe(200)
  time += 1_000
  bench.cell = other
  expect((await bench.send(put('k'))).status).toBe(200)
  await bench.close()
})

test('A deleted cell gives its bytes back, and a start counts those of all cells', async () => {
  const bench = await openBench()
  const first = bench.cell
  await fill(bench)
  bench.newCell()
  expect((await bench.send(put('k'))).status).toBe(403)
  expect((await bench.send({ method: 'DELETE', path: `/v1/databases/${first}` })).status).toBe(200)
  expect((await bench.send(put('k'))).status).toBe(200)
  await fill(bench)
  await bench.serve(bench.store, viaFetch)
  await bench.send(put('k'))
  bench.newCell()
  expect((await bench.send(put('k'))).status).toBe(403)
  await bench.close()
})

interface Backup {
  cell: string
  version: string
}

/** Cells of the account, each empty now, with a backup of when it took most of the quota. */
async function largeBackups(bench: Bench, count: number): Promise<Backup[]> {
  const backups: Backup[] = []
  for (let i = 0; i < count; i++) {
    const cell = bench.newCell()
    const empty = await bench.store.backups.snapshot(cell)
    expect((await bench.send(sql('CREATE TABLE t AS SELECT zeroblob(300000) AS a'))).status).toBe(200)
    const { version } = await bench.store.backups.snapshot(cell)
    const back = await bench.send(restoreOf({ cell, version: empty.version }))
    expect(back.status).toBe(200)
    backups.push({ cell, version })
  }
  return backups
}

const restoreOf = ({ cell, version }: Backup) => ({
  method: 'POST',
  path: `/v1/databases/${cell}/restore`,
  body: { version },
})

test('Restores to larger states, one after the other and at once, have together no more than the quota', async () => {
  const bench = await openBench()
  const backups = await largeBackups(bench, 4)
  const [first, second, ...others] = backups as [Backup, Backup, ...Backup[]]
  expect((await bench.send(restoreOf(first))).status).toBe(200)
  const refused = await bench.send(restoreOf(second))
  expect({ status: refused.status, json: refused.json }).toMatchObject({
    status: 403,
    json: {
      code: 'quota_exceeded',
      limit: MAX,
      detail: expect.stringMatching(/stores or is about to store \d+ bytes, .* quotas\.bytesMax is 400000\./),
    },
  })
  expect(bench.store.databaseBytes(second.cell)).toBeLessThan(50_000)
  // What does not grow is restored.
  expect((await bench.send(restoreOf(first))).status).toBe(200)
  await bench.send({ method: 'DELETE', path: `/v1/databases/${first.cell}` })
  const replies = await Promise.all([second, ...others].map((backup) => bench.send(restoreOf(backup))))
  expect(replies.map(({ status }) => status).sort()).toEqual([200, 403, 403])
  await bench.close()
})

test('Deleted cells that come back at once have together no more than the quota', async () => {
  const bench = await openBench()
  const backups = await largeBackups(bench, 3)
  for (const { cell } of backups) await bench.send({ method: 'DELETE', path: `/v1/databases/${cell}` })
  const replies = await Promise.all(backups.map((backup) => bench.send(restoreOf(backup))))
  expect(replies.map(({ status }) => status).sort()).toEqual([200, 403, 403])
  const ended = backups.filter(({ cell }) => bench.store.findCell(cell)?.deletedAt !== null)
  expect(ended.map(({ cell }) => bench.store.databaseBytes(cell))).toEqual([0, 0])
  await bench.close()
})

/** Puts entries into the new cell until one is refused. @returns their bytes */
async function roomLeft(bench: Bench): Promise<number> {
  bench.newCell()
  return (await fill(bench)) * VALUE.length
}

test('What others than the account do to its cells counts as what it does itself', async () => {
  const bench = await openBench()
  const [first, second] = (await largeBackups(bench, 2)) as [Backup, Backup]
  const restored = await bench.store.backups.restore(first.cell, { version: first.version })
  expect(restored.sizeBytes).toBeGreaterThan(300_000)
  expect(await roomLeft(bench)).toBeLessThan(MAX - 300_000)
  bench.store.deleteCell(first.cell)
  bench.store.deleteCell(bench.cell)
  expect(await roomLeft(bench)).toBeGreaterThan(MAX - 100_000)
  bench.store.deleteCell(bench.cell)
  await bench.store.createCell({ from: { cellId: second.cell, version: second.version } })
  expect(await roomLeft(bench)).toBeLessThan(MAX - 300_000)
  await bench.close()
})

test('A deleted cell that is forgotten counts once it is back', async () => {
  const bench = await Bench.open(viaFetch, {
    store: { quotas: { bytesMax: MAX, cellsMax: 4 }, checkpointBytes: 65_536 },
  })
  const [backup] = (await largeBackups(bench, 1)) as [Backup]
  for (let i = 0; i < 5; i++) {
    const id = i === 0 ? backup.cell : bench.newCell()
    expect((await bench.send({ method: 'DELETE', path: `/v1/databases/${id}` })).status).toBe(200)
  }
  expect(bench.store.findCell(backup.cell)).toBeUndefined()
  // What it was is measured a last time with the next request.
  bench.clock.pass(1_000)
  bench.newCell()
  expect((await bench.send(put('k'))).status).toBe(200)
  expect((await bench.send(restoreOf(backup))).status).toBe(200)
  expect(await roomLeft(bench)).toBeLessThan(MAX - 300_000)
  await bench.close()
})

test('After a total loss, cells that come back count although nobody has changed them since', async () => {
  const options = { quotas: { bytesMax: MAX }, checkpointBytes: 65_536 }
  const bench = await Bench.open(viaFetch, { store: options })
  const [backup] = (await largeBackups(bench, 1)) as [Backup]
  expect((await bench.send(restoreOf(backup))).status).toBe(200)
  await bench.store.close()
  fs.rmSync(bench.data.path, { recursive: true })
  const backups = { recoverInBackground: false }
  await bench.serve(await bench.reopen({ ...options, backups }), viaFetch)
  bench.newCell()
  expect((await bench.send(put('k'))).status).toBe(200)
  await bench.store.backups.ensureLocal(backup.cell)
  expect(await roomLeft(bench)).toBeLessThan(MAX - 300_000)
  await bench.close()
})

const MIB = 1_048_576
const QUOTA = 64 * MIB
const write: CellOperation = { op: 'sql', sql: 'INSERT INTO t VALUES (1)' }

/** Operations of an account that has stored next to nothing, which end when the test says so. */
async function operationsUnderWay() {
  const bench = await Bench.open(viaFetch)
  const running: { growth: number; outgrow(): void; end(): void }[] = []
  const service = {
    execute: (_cellId: string, operation: CellOperation) => {
      const { promise, resolve, reject } = Promise.withResolvers<never>()
      const growth = operation.growth as number
      const full = new CellError('cell_full', 'Full.', { sqliteCode: 'SQLITE_FULL', limit: growth })
      running.push({ growth, outgrow: () => reject(full), end: () => resolve(undefined as never) })
      return promise
    },
  } as unknown as CellService
  const quota = new StoredBytesQuota(QUOTA, bench.store)
  const execute = () => quota.within(service).execute(bench.cell, write)
  const turn = () => new Promise((resolve) => setImmediate(resolve))
  return { bench, quota, running, execute, turn }
}

test('However many small changes are under way, a large one gets most of the room, and while it runs the small ones and new cells find some', async () => {
  const { bench, quota, running, execute, turn } = await operationsUnderWay()
  const small = Array.from({ length: 500 }, execute)
  const large = execute()
  expect(running).toHaveLength(501)
  expect(running[0]?.growth).toBeGreaterThan(MIB / 2)
  expect(running.reduce((sum, { growth }) => sum + growth, 0)).toBeLessThanOrEqual(QUOTA / 4)
  running.at(-1)?.outgrow()
  await turn()
  expect(running[501]?.growth).toBeGreaterThan(0.6 * QUOTA)
  quota.checkRoomForCell(bench.accountId)
  expect(quota.roomOf(bench.accountId)).toBeGreaterThan(QUOTA / 20)
  for (const each of running.slice(0, 500)) each.end()
  await Promise.all(small)
  const another = execute()
  expect(running[502]?.growth).toBeGreaterThan(MIB / 4)
  for (const each of running) each.end()
  await Promise.all([large, another])
  expect(quota.roomOf(bench.accountId)).toBeGreaterThan(0.99 * QUOTA)
  await bench.close()
})

test('A change that needs nearly all of the room gets it in the end; the next large one waits for it, and what needs more is refused', async () => {
  const { bench, quota, running, execute, turn } = await operationsUnderWay()
  const [first, second] = [execute(), execute()]
  const told = expect(first).rejects.toMatchObject({ code: 'quota_exceeded' })
  for (const each of running) each.outgrow()
  await turn()
  expect(running).toHaveLength(3)
  running[2]?.outgrow()
  await turn()
  expect(running[3]?.growth).toBeGreaterThan(0.99 * QUOTA)
  running[3]?.outgrow()
  await told
  await turn()
  expect(running).toHaveLength(5)
  running[4]?.end()
  await second
  expect(quota.roomOf(bench.accountId)).toBeGreaterThan(0.99 * QUOTA)
  await bench.close()
})
