import http from 'node:http'
import type { AddressInfo } from 'node:net'
import { expect, onTestFinished, test } from 'vitest'
import { createClient, Redirected } from '../../src/client/index.ts'
import { OPERATIONS } from '../../src/client/operations.generated.ts'

async function serve(listener: http.RequestListener): Promise<string> {
  const server = http.createServer(listener)
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => {
    server.closeAllConnections()
    server.close()
  })
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}

type Call = (args: object) => Promise<unknown>

test.each([301, 302, 303, 307, 308])(
  'no call follows a %i: the key and what is sent go to no other server',
  async (status) => {
    let stolen = 0
    const elsewhere = await serve((_, response) => {
      stolen++
      response.end('{}')
    })
    const location = `${elsewhere}/v1/databases`
    const baseUrl = await serve((request, response) => {
      request.resume()
      response.writeHead(status, { location }).end()
    })
    const client = createClient({ baseUrl, apiKey: 'cell_sk_secret' })
    const args = { id: 'x', key: 'k', key_id: 'x', account_id: 'x', restore_id: 'x' }
    const rows = Object.entries(OPERATIONS).filter(([name]) => name !== 'changes')
    const calls = rows.map(([name, { path }]) => {
      const given = Object.fromEntries(Object.entries(args).filter(([each]) => path.includes(`{${each}}`)))
      return (client as unknown as Record<string, Call>)[name]?.(given)
    })
    const file = new Blob(['x'])
    calls.push(
      client.importCell({ file }),
      client.importCell({ file: file.stream() }),
      client.changes({ id: 'x' }).next(),
    )
    for (const ended of await Promise.allSettled(calls)) {
      const error = ended.status === 'rejected' ? ended.reason : undefined
      expect(error).toBeInstanceOf(Redirected)
      expect(error).toMatchObject({ location, message: expect.stringContaining(location) })
    }
    expect(stolen).toBe(0)
  },
)
