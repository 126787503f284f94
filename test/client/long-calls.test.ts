import http from 'node:http'
import type { AddressInfo } from 'node:net'
import { expect, onTestFinished, test } from 'vitest'
import { remoteFetch } from '../../src/cli/remote/remote-client.ts'
import { createClient } from '../../src/client/index.ts'
import { PROJECT, run } from '../support/package/run.ts'

const DISPATCHER = Symbol.for('undici.globalDispatcher.1')
type Agent = { dispatch: unknown; constructor: new (options: object) => Agent }

test('a call whose answer takes longer than fetch waits gets it, by the dispatcher that the program has set; on the command line too', async () => {
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
  const command = remoteFetch(baseUrl, () => {})(baseUrl, {})
  // Once the limit has ended a plain request, it would have ended the earlier ones.
  await expect(fetch(baseUrl)).rejects.toMatchObject({ cause: { code: 'UND_ERR_HEADERS_TIMEOUT' } })
  for (const response of waiting)
    response.setHeader('content-type', 'application/json').end('{"status":"ready","damaged_backups":0}')
  expect(await call).toEqual({ status: 'ready', damaged_backups: 0 })
  expect((await command).status).toBe(200)
})

test('so does the first one of a program, for which Node.js has yet to load its fetch', async () => {
  const program = `
    import { createClient } from './src/client/index.ts'
    const client = createClient({ baseUrl: 'http://127.0.0.1:1' })
    globalThis.fetch = async (_, { dispatcher }) => {
      console.log(typeof dispatcher?.dispatch)
      return new Response('{}')
    }
    await client.readyz()`
  const args = ['--input-type=module', '--eval', program]
  expect(await run(process.execPath, args, { cwd: PROJECT })).toMatchObject({ code: 0, stdout: 'function\n' })
})
