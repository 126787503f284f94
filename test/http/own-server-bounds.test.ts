import http from 'node:http'
import net, { type AddressInfo } from 'node:net'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { createHandler } from '../../src/http/fetch/fetch-handler.ts'
import { DEFAULT_MEMORY_LIMITS } from '../../src/http/quotas/memory-budgets.ts'
import { createListener } from '../../src/http/server/node-listener.ts'
import type { CellService } from '../../src/service/cell-service.ts'
import { Bench } from '../support/http/bench.ts'
import { viaFetch } from '../support/http/transports.ts'
import { answersIn, exchange } from '../support/http/wire.ts'
import { entryAnswer } from '../support/request-bounds.ts'

/** Answers that nobody takes are bounded in servers of others too. An account may leave 20 MB untaken. */

const bench = Bench.perTest(viaFetch)
let begun: number
let valueBytes: number

beforeEach(() => {
  begun = 0
  valueBytes = 8_000_000
})

function options() {
  const execute = async () => {
    begun++
    await new Promise((resolve) => setImmediate(resolve))
    return entryAnswer(valueBytes)
  }
  const memory = { ...DEFAULT_MEMORY_LIMITS, unsentPerAccount: 20_000_000 }
  return { service: { execute } as unknown as CellService, limits: { memory } }
}

describe('a node:http server with the listener', () => {
  let server: http.Server
  let port: number
  beforeEach(async () => {
    server = http.createServer(createListener(bench.store, options()))
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    port = (server.address() as AddressInfo).port
  })
  afterEach(() => {
    server.closeAllConnections()
    server.close()
  })

  const get = (...headers: string[]) =>
    [`GET ${bench.fill('/v1/databases/{cell}/kv/k')} HTTP/1.1`, 'Host: x', `x-api-key: ${bench.key}`]
      .concat(headers, '', '')
      .join('\r\n')

  test('begins, of many requests on one connection that reads nothing, only those whose answers went out', async () => {
    const socket = net.connect(port, '127.0.0.1').on('error', () => {})
    socket.pause()
    socket.write(get().repeat(120))
    for (let i = 0; i < 20; i++)
      await exchange(port, 'GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n').ended
    expect(begun).toBeGreaterThan(0)
    expect(begun).toBeLessThan(5)
    socket.destroy()
  })

  test('answers all of them in order to a client that reads', async () => {
    valueBytes = 100_000
    const { ended } = exchange(port, get().repeat(50) + get('Connection: close'))
    expect(answersIn(await ended).map(({ status }) => status)).toEqual(Array(51).fill(200))
  })
})

describe('the fetch handler', () => {
  const asked = () =>
    new Request(`http://x${bench.fill('/v1/databases/{cell}/kv/k')}`, { headers: { 'x-api-key': bench.key } })

  test('answers nothing more to an account that leaves its answers untaken, until it takes them', async () => {
    const handler = createHandler(bench.store, options())
    const untaken = [await handler(asked()), await handler(asked())]
    // A third one finds no room once it is ready, and those after it are refused before.
    const broken = await handler(asked())
    await expect(broken.text()).rejects.toThrow('untaken')
    valueBytes = 8_000_000
    expect(JSON.parse(await (untaken[0] as Response).text()).value.length).toBe(valueBytes)
    await untaken[1]?.body?.cancel()
    for (let i = 0; i < 5; i++)
      expect((await (await handler(asked())).text()).length).toBeGreaterThan(valueBytes)
  })

  test('refuses requests before their work once the account’s room is used up', async () => {
    valueBytes = 9_995_000
    const handler = createHandler(bench.store, options())
    const untaken = [await handler(asked()), await handler(asked())]
    const before = begun
    const refused = await handler(asked())
    expect([refused.status, refused.headers.get('retry-after'), begun]).toEqual([429, '1', before])
    await Promise.all(untaken.map((response) => response.body?.cancel()))
    expect((await handler(asked())).status).toBe(200)
  })

  test('gives short answers as a whole, and takes the length of long ones with it', async () => {
    const handler = createHandler(bench.store, options())
    valueBytes = 10
    expect((await handler(asked())).headers.get('content-length')).toBeNull()
    valueBytes = 100_000
    const long = await handler(asked())
    expect(Number(long.headers.get('content-length'))).toBe((await long.arrayBuffer()).byteLength)
  })
})
