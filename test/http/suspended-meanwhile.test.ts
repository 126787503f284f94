import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { NodeServer } from '../../src/http/server/node-server.ts'
import type { CellService } from '../../src/service/cell-service.ts'
import { InProcessService } from '../../src/service/in-process-service.ts'
import { Bench } from '../support/http/bench.ts'
import { viaFetch } from '../support/http/transports.ts'
import { answersIn, exchange } from '../support/http/wire.ts'
import { BOUNDS } from '../support/request-bounds.ts'

/** An account is suspended, or a key expires, while a request with it is under way. */

const EXPIRES_AFTER_MS = 5_000

const bench = Bench.perTest(viaFetch)
let server: NodeServer
let port: number
let key: string
/** Called when an operation reaches the service; the operation waits for it. */
let beforeOperation: () => void

beforeEach(async () => {
  const expiresAt = bench.clock.now() + EXPIRES_AFTER_MS
  key = bench.store.apiKeys.create(bench.accountId, { expiresAt }).key
  beforeOperation = () => {}
  const inProcess = new InProcessService(bench.store, { restoreWaitMs: 1_000, bounds: BOUNDS })
  const service: Pick<CellService, 'execute'> = {
    execute: async (...asked) => {
      beforeOperation()
      return await inProcess.execute(...asked)
    },
  }
  server = new NodeServer(bench.store, { service: service as CellService })
  port = ((await server.start({ host: '127.0.0.1', port: 0 })) as AddressInfo).port
})

afterEach(async () => {
  await server.stop({ drainMs: 0 })
})

const ENDS: [what: string, end: () => void, status: number][] = [
  ['the account is suspended', () => void bench.store.accounts.suspend(bench.accountId), 403],
  ['the key expires', () => bench.clock.step(EXPIRES_AFTER_MS), 401],
]

const ASKS: [method: string, path: string, body: string][] = [
  ['PUT', '/v1/databases/{cell}/kv/k', '{"value":"v"}'],
  ['POST', '/v1/databases/{cell}/sql', '{"sql":"CREATE TABLE t (a)"}'],
  ['POST', '/v1/databases/{cell}/batch', '{"operations":[{"kv":"put","key":"k","value":"v"}]}'],
  ['POST', '/v1/databases', '{}'],
  ['POST', '/v1/api-keys', '{}'],
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

const counts = () => [
  bench.store.apiKeys.list(bench.accountId).filter(({ expiresAt }) => expiresAt === null).length,
  bench.store.cells({ accountId: bench.accountId }).cells.length,
  bench.store.openCell(bench.cell).kv.list().entries.length,
  bench.store.openCell(bench.cell).sql("SELECT 1 FROM sqlite_schema WHERE name = 't'").rows.length,
]

describe.each(ENDS)('%s', (_, end, status) => {
  test.each(ASKS)('before the body of %s %s is whole: it is refused', async (method, path, body) => {
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

  test.each(ASKS.slice(0, 3))('while the operation of %s %s waits: it does not start', async (...ask) => {
    const before = counts()
    beforeOperation = end
    const { ended } = exchange(port, head(...ask) + ask[2])
    expect(answersIn(await ended).map((answer) => answer.status)).toEqual([status])
    expect(counts()).toEqual(before)
  })

  test('while a backup waits behind another one: it does not start, and the other one is finished', async () => {
    bench.objectStore.hold()
    const first = bench.store.backups.snapshot(bench.cell)
    await bench.objectStore.arrival()
    const waits = bench.send({ method: 'POST', path: '/v1/databases/{cell}/backup', body: {}, key })
    await bench.send({ method: 'GET', path: '/v1/databases/{cell}/kv', key })
    end()
    bench.objectStore.open()
    expect((await first).kind).toBe('snapshot')
    expect((await waits).status).toBe(status)
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
