import http from 'node:http'
import net, { type AddressInfo } from 'node:net'
import { afterEach, describe, expect, onTestFinished, test } from 'vitest'
import { RequestAborted } from '../../src/http/core/http-message.ts'
import { createHandler } from '../../src/http/fetch/fetch-handler.ts'
import { createListener } from '../../src/http/server/node-listener.ts'
import type { CellService, ExecuteOptions } from '../../src/service/cell-service.ts'
import { CellAnswer } from '../../src/service/operations.ts'
import { Bench } from '../support/http/bench.ts'
import { TRANSPORTS_AND_NODES, viaFetch } from '../support/http/transports.ts'
import { checkProblem } from './rows/row.ts'

/** A service that notes how operations are bounded, and answers none until it is told that nobody waits. */
class WaitingService {
  readonly asked: ExecuteOptions[] = []
  #begin: () => void = () => {}
  readonly begun = new Promise<void>((resolve) => {
    this.#begin = resolve
  })

  execute(_cellId: string, _operation: unknown, options: ExecuteOptions = {}): Promise<never> {
    this.asked.push(options)
    this.#begin()
    return new Promise((_resolve, reject) => {
      options.signal?.addEventListener('abort', () => reject(options.signal?.reason), { once: true })
    })
  }
}

const asService = (service: WaitingService) => service as unknown as CellService
let bench: Bench | undefined
afterEach(() => bench?.close())

const sql = { method: 'POST', path: '/v1/databases/{cell}/sql' }
const batch = { method: 'POST', path: '/v1/databases/{cell}/batch' }

describe.each(TRANSPORTS_AND_NODES)('timeout_ms, through %s', (_name, transport) => {
  test.each([0, -1, 901, 1.5, '5', null])('refuses %j', async (timeout_ms) => {
    bench = await Bench.open(transport, { handler: { limits: { statementMsMax: 900 } } })
    const limit = Number.isInteger(timeout_ms) ? { limit: 900 } : {}
    const problem = { code: 'invalid_request', field: 'timeout_ms', ...limit } as const
    checkProblem(await bench.send({ ...sql, body: { sql: 'SELECT 1', timeout_ms } }), 400, problem)
    checkProblem(await bench.send({ ...batch, body: { operations: [], timeout_ms } }), 400, problem)
  })

  test('is 5,000 at most by default, and is nothing that a cell in this process could keep', async () => {
    bench = await Bench.open(transport)
    expect((await bench.send({ ...sql, body: { sql: 'SELECT 1', timeout_ms: 5_000 } })).status).toBe(200)
    expect((await bench.send({ ...sql, body: { sql: 'SELECT 1', timeout_ms: 5_001 } })).status).toBe(400)
  })
})

describe('a client that hangs up', () => {
  test('is told to the service, over a socket', async () => {
    bench = await Bench.open(viaFetch)
    const service = new WaitingService()
    const logger = { error: (fields: object) => void bench?.logged.push(fields as Record<string, unknown>) }
    const server = http.createServer(createListener(bench.store, { service: asService(service), logger }))
    onTestFinished(() => void server.close())
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    const socket = net.connect((server.address() as AddressInfo).port, '127.0.0.1')
    const body = '{"sql":"SELECT 1"}'
    const head = [`POST ${bench.fill(sql.path)} HTTP/1.1`, 'Host: x', `x-api-key: ${bench.key}`]
    const lines = [...head, 'Content-Type: application/json', `Content-Length: ${body.length}`, '', body]
    socket.write(lines.join('\r\n'))
    await service.begun
    const signal = service.asked[0]?.signal
    expect(signal?.aborted).toBe(false)
    socket.destroy()
    await new Promise((resolve) => signal?.addEventListener('abort', resolve, { once: true }))
    expect(signal?.reason).toBeInstanceOf(RequestAborted)
    expect(bench.logged).toEqual([])
  })

  test('is told to the service, by the signal of a Request', async () => {
    bench = await Bench.open(viaFetch)
    const service = new WaitingService()
    const handler = createHandler(bench.store, { service: asService(service) })
    const client = new AbortController()
    const url = `http://x${bench.fill(sql.path)}`
    const headers = { 'x-api-key': bench.key, 'content-type': 'application/json' }
    const request = new Request(url, {
      method: 'POST',
      headers,
      body: '{"sql":"SELECT 1"}',
      signal: client.signal,
    })
    const answer = handler(request)
    await service.begun
    client.abort()
    expect((await answer).status).toBe(400)
    expect(service.asked[0]?.signal?.reason).toBeInstanceOf(RequestAborted)
    expect(bench.logged).toEqual([])
  })

  test('who was answered before has hung up on nobody', async () => {
    bench = await Bench.open(viaFetch)
    let asked: AbortSignal | undefined
    const service = {
      execute: async (_cell: string, _operation: unknown, options?: ExecuteOptions) => {
        asked = options?.signal
        return new CellAnswer(200, '{"results":[]}')
      },
    } as unknown as CellService
    const server = http.createServer(createListener(bench.store, { service }))
    onTestFinished(() => void server.close())
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    const { port } = server.address() as AddressInfo
    const response = await fetch(`http://127.0.0.1:${port}${bench.fill(batch.path)}`, {
      method: 'POST',
      headers: { 'x-api-key': bench.key, 'content-type': 'application/json' },
      body: '{"operations":[]}',
    })
    expect(await response.json()).toEqual({ results: [] })
    server.closeAllConnections()
    await new Promise<void>((resolve) => server.close(() => resolve()))
    expect(asked?.aborted).toBe(false)
  })
})
