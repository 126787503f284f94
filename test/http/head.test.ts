import { setImmediate } from 'node:timers/promises'
import { describe, expect, onTestFinished, test } from 'vitest'
import { ROUTES } from '../../src/http/routes/routes.ts'
import { Bench } from '../support/http/bench.ts'
import type { RawRequest } from '../support/http/raw-exchange.ts'
import { TRANSPORTS_AND_NODES, type Transport } from '../support/http/transports.ts'

/** A GET of it has no end: see changes.test.ts. */
/** No node is around this handler: it is 404, and test/cli/status.test.ts asks a node. */
const OF_A_NODE = '/v1/status'
const STREAM = '/v1/databases/{id}/changes'

describe.each(TRANSPORTS_AND_NODES)('through %s', (_name, open) => {
  async function opened(): Promise<{
    bench: Bench
    transport: Transport
    send: (request: RawRequest) => Promise<unknown>
  }> {
    const bench = await Bench.open(open)
    const transport = await open(bench.store)
    onTestFinished(async () => {
      await transport.close()
      await bench.close()
    })
    bench.store.openCell(bench.cell).kv.put('k', 'v')
    const send = async (request: RawRequest) => {
      const { status, headers, text } = await transport.send(request)
      const length = headers.get('content-length') ?? String(Buffer.byteLength(text))
      const type = headers.get('content-type')
      return { status, length, type, text: request.method === 'HEAD' ? text : '' }
    }
    return { bench, transport, send }
  }

  const paths = ROUTES.filter(
    ([method, path]) => method === 'GET' && path !== STREAM && path !== OF_A_NODE,
  ).map(([, path]) => path)

  test.each(paths)('HEAD %s is answered as GET, without a body', async (route) => {
    const { bench, transport, send } = await opened()
    const headers = { 'x-api-key': route.startsWith('/v1/accounts') ? bench.fill('{ownerkey}') : bench.key }
    const filled = bench.fill(
      route.replace('{id}', '{cell}').replace('{key}', 'k').replace('{account_id}', '{account}'),
    )
    const path = filled.includes('{restore_id}') ? await endedRestore(transport, bench) : filled
    const asked = await send({ method: 'GET', path, headers })
    expect(asked).toMatchObject({ status: 200 })
    expect(await send({ method: 'HEAD', path, headers })).toEqual(asked)
  })

  test.each([
    ['/healthz', 200],
    ['/v1/databases', 401],
    ['/v1/nothing', 401],
  ])('HEAD %s without a key has status %i and no body', async (path, status) => {
    const { send } = await opened()
    const asked = await send({ method: 'GET', path, headers: {} })
    expect(asked).toMatchObject({ status })
    expect(await send({ method: 'HEAD', path, headers: {} })).toEqual(asked)
  })
})

/** The path of a restore that was answered before its end, and has ended. */
async function endedRestore(transport: Transport, bench: Bench): Promise<string> {
  await bench.store.backups.snapshot(bench.cell)
  const headers = { 'x-api-key': bench.key, 'content-type': 'application/json', prefer: 'respond-async' }
  const path = `/v1/databases/${bench.cell}/restore`
  const begun = await transport.send({ method: 'POST', path, headers, body: '{}' })
  const location = begun.headers.get('location') ?? 'none'
  for (let i = 0; i < 100_000; i++) {
    const { text } = await transport.send({ method: 'GET', path: location, headers })
    if (JSON.parse(text).state === 'succeeded') return location
    await setImmediate()
  }
  throw new Error('The restore did not end.')
}
