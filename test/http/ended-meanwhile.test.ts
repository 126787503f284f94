import { once } from 'node:events'
import fs from 'node:fs'
import { beforeEach, describe, expect, test } from 'vitest'
import type { CellService } from '../../src/service/cell-service.ts'
import { InProcessService } from '../../src/service/in-process-service.ts'
import { Bench } from '../support/http/bench.ts'
import { viaFetch } from '../support/http/transports.ts'
import { answersIn, exchange } from '../support/http/wire.ts'
import { BOUNDS } from '../support/request-bounds.ts'

/** A key is revoked or expires, or its account is suspended, while a request with it is under way. */

const EXPIRES_AFTER_MS = 5_000

const bench = Bench.perTest(viaFetch, { store: { openCellsMax: 1 } })
let port: number
let keyId: string
let key: string
/** Called when an operation reaches the service; the operation waits for it. */
let beforeOperation: () => void | Promise<void>
/** Called while a cell is copied for an export. */
let whileCopied: () => void

beforeEach(async () => {
  const expiresAt = bench.clock.now() + EXPIRES_AFTER_MS
  const created = bench.store.apiKeys.create(bench.accountId, { expiresAt })
  keyId = created.id
  key = created.key
  beforeOperation = () => {}
  whileCopied = () => {}
  const inProcess = new InProcessService(bench.store, { restoreWaitMs: 1_000, bounds: BOUNDS })
  const service: Pick<CellService, 'execute' | 'exportCell'> = {
    execute: async (...asked) => {
      await beforeOperation()
      return await inProcess.execute(...asked)
    },
    exportCell: (cellId, options) =>
      inProcess.exportCell(cellId, { ...options, onProgress: () => whileCopied() }),
  }
  ;({ port } = await bench.listen({ service: service as CellService }))
})

const revoke = () => void bench.store.apiKeys.revoke(bench.accountId, keyId)

const ENDS: [what: string, end: () => void, status: number][] = [
  ['the key is revoked', revoke, 401],
  ['the key expires', () => bench.clock.step(EXPIRES_AFTER_MS), 401],
  ['the account is suspended', () => void bench.store.accounts.suspend(bench.accountId), 403],
]

function head(method: string, path: string, body: string): string {
  const lines = [
    `${method} ${bench.fill(path)} HTTP/1.1`,
    'Host: x',
    `x-api-key: ${key}`,
    'Connection: close',
  ]
  return [...lines, 'Content-Type: application/json', `Content-Length: ${body.length}`, '', ''].join('\r\n')
}

const WITH_BODY: [method: string, path: string, body: string][] = [
  ['POST', '/v1/api-keys', '{"name":"made after the end"}'],
  ['POST', '/v1/databases', '{"name":"made after the end"}'],
  ['PUT', '/v1/databases/{cell}/kv/k', '{"value":"v"}'],
  ['POST', '/v1/databases/{cell}/sql', '{"sql":"CREATE TABLE t (a)"}'],
  ['POST', '/v1/databases/{cell}/batch', '{"operations":[{"kv":"put","key":"k","value":"v"}]}'],
]

const counts = () => [
  bench.store.apiKeys.list(bench.accountId).filter(({ expiresAt }) => expiresAt === null).length,
  bench.store.cells({ accountId: bench.accountId }).cells.length,
  bench.store.openCell(bench.cell).kv.list().entries.length,
  bench.store.openCell(bench.cell).sql("SELECT 1 FROM sqlite_schema WHERE name = 't'").rows.length,
]

describe.each(ENDS)('%s', (_, end, status) => {
  test.each(WITH_BODY)('before the body of %s %s is whole: it is refused', async (method, path, body) => {
    const { socket, ended } = exchange(port, `${head(method, path, body)}${body.slice(0, -1)}`)
    await once(socket, 'connect')
    // Answered only after the server has taken the head of the one before it: connections are read in turn.
    await exchange(port, 'GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n').ended
    const before = counts()
    end()
    socket.write(body.slice(-1))
    expect(answersIn(await ended).map((answer) => answer.status)).toEqual([status])
    expect(counts()).toEqual(before)
  })

  test.each(WITH_BODY.slice(2))('while the operation of %s %s waits: it does not start', async (...ask) => {
    const before = counts()
    beforeOperation = end
    const { ended } = exchange(port, head(...ask) + ask[2])
    expect(answersIn(await ended).map((answer) => answer.status)).toEqual([status])
    expect(counts()).toEqual(before)
  })

  test.each(['backup', 'backup/incr', 'restore'])(
    'while POST …/%s waits behind a backup: it does not start, and the other one is finished',
    async (route) => {
      await bench.store.backups.snapshot(bench.cell)
      bench.objectStore.hold()
      const first = bench.store.backups.snapshot(bench.cell)
      await bench.objectStore.arrival()
      const waits = bench.send({ method: 'POST', path: `/v1/databases/{cell}/${route}`, body: {}, key })
      await bench.send({ method: 'GET', path: '/v1/databases/{cell}/kv', key })
      end()
      bench.objectStore.open()
      expect((await first).kind).toBe('snapshot')
      expect((await waits).status).toBe(status)
    },
  )
})

test('a request that ends before the key is revoked succeeds', async () => {
  const [method, path, body] = WITH_BODY[2] as [string, string, string]
  const { ended } = exchange(port, head(method, path, body) + body)
  expect(answersIn(await ended).map(({ status }) => status)).toEqual([200])
})

test('a change of another key refuses nobody', async () => {
  const other = bench.store.apiKeys.create(bench.accountId).id
  beforeOperation = () => void bench.store.apiKeys.revoke(bench.accountId, other)
  const [method, path, body] = WITH_BODY[2] as [string, string, string]
  const { ended } = exchange(port, head(method, path, body) + body)
  expect(answersIn(await ended).map(({ status }) => status)).toEqual([200])
})

test('DELETE of a cell keeps it if the key was revoked while its last state was stored', async () => {
  const cell = bench.store.openCell(bench.cell)
  cell.kv.put('k', 'v')
  bench.objectStore.hold()
  const deleted = bench.send({ method: 'DELETE', path: '/v1/databases/{cell}', key })
  await bench.objectStore.arrival()
  revoke()
  bench.objectStore.open()
  expect((await deleted).status).toBe(401)
  expect(cell.kv.get('k')).toBe('v')
})

test('a plan of a restore is not for a key that was revoked while it was made', async () => {
  await bench.store.backups.snapshot(bench.cell)
  bench.objectStore.hold()
  const ask = { method: 'POST', path: '/v1/databases/{cell}/restore', body: { dry_run: true }, key }
  const planned = bench.send(ask)
  await bench.objectStore.arrival()
  revoke()
  bench.objectStore.open()
  expect((await planned).status).toBe(401)
})

describe('GET …/export', () => {
  const exported = () => exchange(port, head('GET', '/v1/databases/{cell}/export', '')).ended
  // Scheduled backups have files there, too.
  const spooled = () => fs.readdirSync(bench.data.paths.spool).filter((name) => name.startsWith('export-'))

  test('has nothing for a key that was revoked while the cell’s data came back', async () => {
    await bench.store.backups.snapshot(bench.cell)
    // With one cell open at a time, this closes the other.
    bench.store.openCell(bench.store.createCell().id).kv.get('k')
    fs.rmSync(bench.cellDirectory, { recursive: true })
    bench.objectStore.hold()
    const answer = exported()
    await bench.objectStore.arrival()
    revoke()
    bench.objectStore.open()
    expect(answersIn(await answer).map(({ status }) => status)).toEqual([401])
    expect(spooled()).toEqual([])
  })

  test('is 404 if the cell is deleted while it is copied', async () => {
    bench.store.openCell(bench.cell).exec('CREATE TABLE t (a); INSERT INTO t VALUES (zeroblob(2000000));')
    whileCopied = () => {
      if (bench.store.findCell(bench.cell)?.deletedAt === null) bench.store.deleteCell(bench.cell)
    }
    const [answer] = answersIn(await exported())
    expect([answer?.status, JSON.parse(answer?.body ?? '{}')]).toMatchObject([
      404,
      { code: 'cell_not_found' },
    ])
    expect(spooled()).toEqual([])
  })

  test('has nothing for a key that was revoked while the cell was copied', async () => {
    whileCopied = revoke
    expect(answersIn(await exported()).map(({ status }) => status)).toEqual([401])
    expect(spooled()).toEqual([])
  })
})

test('what a suspended account has is kept and still backed up, and serves again when it is resumed', async () => {
  await bench.send({ method: 'PUT', path: '/v1/databases/{cell}/kv/k', body: { value: 'v' } })
  bench.store.accounts.suspend(bench.accountId)
  const asks = ['/v1/databases', '/v1/databases/{cell}', '/v1/databases/{cell}/kv/k', '/v1/nothing']
  for (const path of asks) {
    const { status, json } = await bench.send({ method: 'GET', path })
    expect({ status, json }).toMatchObject({ status: 403, json: { code: 'account_suspended' } })
  }
  const { version } = await bench.store.backups.incremental(bench.cell)
  bench.store.accounts.resume(bench.accountId)
  const { json } = await bench.send({ method: 'GET', path: '/v1/databases/{cell}/backups' })
  expect(json).toMatchObject({ backups: [{ version }] })
  const entry = await bench.send({ method: 'GET', path: '/v1/databases/{cell}/kv/k' })
  expect(entry.json).toMatchObject({ value: 'v' })
})
