import http from 'node:http'
import type { AddressInfo } from 'node:net'
import { expect, onTestFinished, test } from 'vitest'
import { createClient } from '../../src/client/index.ts'

const DISPATCHER = Symbol.for('undici.globalDispatcher.1')
type Agent = { dispatch: unknown; constructor: new (options: object) => Agent }

test('a call whose answer takes longer than fetch waits gets it, by the dispatcher that the program has set', async () => {
  const waiting: http.ServerResponse[] = []
  const server = http.createServer((_, response) => void waiting.push(response))
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => {
    server.closeAllConnections()
    server.close()
  })
  const baseUrl = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const client = createClient({ baseUrl, apiKey: 'k', retries: 0 })
  const globals = globalThis as unknown as Record<symbol, Agent>
  const before = globals[DISPATCHER] as Agent
  // Of Node.js it is 300 s; here as short as it gets.
  globals[DISPATCHER] = new before.constructor({ headersTimeout: 1 })
  onTestFinished(() => {
    globals[DISPATCHER] = before
  })
  const call = client.readyz()
  // Once the limit has ended a plain request, it would have ended the earlier one of the client.
  await expect(fetch(baseUrl)).rejects.toMatchObject({ cause: { code: 'UND_ERR_HEADERS_TIMEOUT' } })
  for (const response of waiting)
    response.setHeader('content-type', 'application/json').end('{"status":"ready","damaged_backups":0}')
  expect(await call).toEqual({ status: 'ready', damaged_backups: 0 })
})
