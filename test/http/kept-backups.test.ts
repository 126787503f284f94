import { expect, test, vi } from 'vitest'
import type { BackupDestination } from '../../src/backup/archiver/backup-destination.ts'
import { CellError } from '../../src/errors.ts'
import { Bench } from '../support/http/bench.ts'
import { viaFetch } from '../support/http/transports.ts'

const backUp = { method: 'POST', path: '/v1/databases/{cell}/backup' }
const put = { method: 'PUT', path: '/v1/databases/{cell}/kv/k', body: { value: 'v' } }

test('An account keeps so many backups that it requested; others and the schedule are not counted', async () => {
  const bench = await Bench.open(viaFetch, { store: { quotas: { backupsMax: 2 } } })
  await bench.store.backups.snapshot(bench.cell)
  const first = bench.cell
  expect((await bench.send(backUp)).status).toBe(200)
  bench.newCell()
  expect((await bench.send(backUp)).status).toBe(200)
  bench.newCell()
  const refused = await bench.send(backUp)
  expect(refused).toMatchObject({ status: 403, json: { code: 'quota_exceeded', limit: 2, usage: 2 } })
  expect((refused.json as { detail: string }).detail).toContain('quotas.backupsMax is 2')
  expect((await bench.send({ ...backUp, path: `${backUp.path}/incr` })).status).toBe(403)
  // Neither does a refused one count, nor does it stop what the owner does.
  await bench.store.backups.snapshot(bench.cell)
  bench.newCell(bench.strangerId)
  expect((await bench.send({ ...backUp, key: bench.strangerKey })).status).toBe(200)
  bench.cell = first
  expect((await bench.send({ method: 'POST', path: '/v1/databases/{cell}/restore' })).status).toBe(200)
  await bench.close()
})

test('What was removed makes room, of whatever cell it was', async () => {
  const bench = await Bench.open(viaFetch, { store: { quotas: { backupsMax: 3 } } })
  const first = bench.cell
  for (let i = 0; i < 3; i++) {
    expect((await bench.send({ ...put, body: { value: `${i}` } })).status).toBe(200)
    const { status, json } = await bench.send(backUp)
    expect(status).toBe(200)
    if (i < 2) await bench.store.core.destination?.objectStore.delete((json as { version: string }).version)
  }
  bench.newCell()
  expect((await bench.send(backUp)).status).toBe(200)
  bench.newCell()
  expect((await bench.send(backUp)).status).toBe(200)
  bench.newCell()
  expect((await bench.send(backUp)).status).toBe(403)
  bench.cell = first
  expect((await bench.send(backUp)).status).toBe(403)
  await bench.close()
})

test('What was removed makes room although the cell has as many backups that others have made', async () => {
  const bench = await Bench.open(viaFetch, { store: { quotas: { backupsMax: 2 } } })
  const { objectStore } = bench.store.core.destination as BackupDestination
  for (let i = 0; i < 2; i++) {
    expect((await bench.send({ ...put, body: { value: `${i}` } })).status).toBe(200)
    const { json } = await bench.send(backUp)
    await bench.store.backups.snapshot(bench.cell)
    await bench.store.backups.backup(bench.cell, 'snapshot', { origin: 'schedule' })
    await objectStore.delete((json as { version: string }).version)
  }
  expect((await bench.send(backUp)).status).toBe(200)
  expect((await bench.send(backUp)).status).toBe(200)
  expect((await bench.send(backUp)).status).toBe(403)
  await bench.close()
})

test('A backup that fails says why, also if the disk is too full to note that it does not count; it makes room later', async () => {
  const bench = await Bench.open(viaFetch, { store: { quotas: { backupsMax: 1 } } })
  const requested = bench.store.requestedBackups
  const add = requested.add.bind(requested)
  requested.add = (account, cell, count) => {
    if (count < 0) throw new CellError('disk_full', 'The disk is full; nothing of the change was kept.')
    add(account, cell, count)
  }
  const backup = vi.spyOn(bench.store.backups, 'backup')
  backup.mockRejectedValueOnce(new CellError('object_store_unavailable', 'Down (injected).'))
  expect((await bench.send(backUp)).json).toMatchObject({ code: 'object_store_unavailable' })
  expect((await bench.send(backUp)).status).toBe(200)
  expect((await bench.send(backUp)).status).toBe(403)
  await bench.close()
})

test('Backups that are under way count, however many are requested at once', async () => {
  const bench = await Bench.open(viaFetch, { store: { quotas: { backupsMax: 2 } } })
  const replies = await Promise.all(Array.from({ length: 4 }, () => bench.send(backUp)))
  expect(replies.map(({ status }) => status).sort()).toEqual([200, 200, 403, 403])
  expect((await bench.send(backUp)).status).toBe(403)
  await bench.close()
})

test('A refused one lists what is kept of the cell, and reads nothing', async () => {
  const bench = await Bench.open(viaFetch, {
    store: { quotas: { backupsMax: 1 }, backups: { maxLagMs: 3_600_000 } },
  })
  expect((await bench.send(backUp)).status).toBe(200)
  expect((await bench.send(put)).status).toBe(200)
  const calls: string[] = []
  bench.objectStore.gates = (call, key) => {
    calls.push(`${call} ${key}`)
    return false
  }
  expect((await bench.send(backUp)).status).toBe(403)
  expect(calls).toEqual([`list snapshots/${bench.cell}/`])
  await bench.close()
})

test('A deleted cell comes back only if the account has room for it', async () => {
  const bench = await Bench.open(viaFetch, { store: { quotas: { cellsMax: 1 } } })
  const restore = { method: 'POST', path: '/v1/databases/{cell}/restore' }
  expect((await bench.send(backUp)).status).toBe(200)
  expect((await bench.send({ method: 'DELETE', path: '/v1/databases/{cell}' })).status).toBe(200)
  const { id: second } = bench.store.createCell({ accountId: bench.accountId })
  expect(await bench.send(restore)).toMatchObject({ status: 403, json: { code: 'quota_exceeded', usage: 1 } })
  bench.store.deleteCell(second)
  expect((await bench.send(restore)).status).toBe(200)
  expect((await bench.send(restore)).status).toBe(200)
  await bench.close()
})

test('A restore without a version keeps what a cell has committed of which only the creation is in a version', async () => {
  const bench = await Bench.open(viaFetch, { store: { backups: { maxLagMs: 3_600_000 } } })
  const restore = { method: 'POST', path: '/v1/databases/{cell}/restore' }
  const list = { method: 'GET', path: '/v1/databases/{cell}/backups' }
  expect((await bench.send(put)).status).toBe(200)
  // A branch of a new cell begins its history.
  const from = { cell_id: bench.cell }
  expect((await bench.send({ method: 'POST', path: '/v1/databases', body: { from } })).status).toBe(201)
  const { json } = await bench.send(list)
  const [{ version: origin }, ...others] = (json as { backups: [{ version: string }] }).backups
  expect(others).toEqual([])
  const plan = await bench.send({ ...restore, body: { dry_run: true } })
  expect(plan).toMatchObject({ status: 200, json: { version: origin } })
  const reply = await bench.send(restore)
  expect(reply.status).toBe(200)
  expect((reply.json as { version: string }).version).not.toBe(origin)
  const get = { method: 'GET', path: put.path }
  expect((await bench.send(get)).json).toMatchObject({ value: 'v' })
  expect((await bench.send({ ...restore, body: { version: origin } })).status).toBe(200)
  expect((await bench.send(get)).status).toBe(404)
  await bench.close()
})
