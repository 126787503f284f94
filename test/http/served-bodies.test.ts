import http from 'node:http'
import { beforeEach, expect, test } from 'vitest'
import type { NodeServer } from '../../src/http/server/node-server.ts'
import type { CellService } from '../../src/service/cell-service.ts'
import { CellAnswer, type CellRequest } from '../../src/service/operations.ts'
import { Bench } from '../support/http/bench.ts'
import { viaFetch } from '../support/http/transports.ts'
import { until } from '../support/until.ts'

/** The memory of a body that our own server has received: while its operation is at work, and afterwards. */

const SQL = `SELECT ${'1,'.repeat(100_000)}1`

const bench = Bench.perTest(viaFetch)
let server: NodeServer
let port: number
/** The body of the newest operation, and what ends it. */
let body: Uint8Array | undefined
let end: () => void

beforeEach(async () => {
  body = undefined
  const execute = async (_: string, operation: CellRequest) => {
    body = operation.body
    await new Promise<void>((resolve) => (end = resolve))
    return new CellAnswer(200, '{}')
  }
  ;({ server, port } = await bench.listen({ service: { execute } as unknown as CellService }))
})

/** A statement that is so long that the operation gets the body unread. */
async function ask(): Promise<{ request: http.ClientRequest; answered: Promise<unknown> }> {
  const headers = { 'x-api-key': bench.key, 'content-type': 'application/json' }
  const path = bench.fill('/v1/databases/{cell}/sql')
  const request = http.request({ host: '127.0.0.1', port, method: 'POST', path, headers })
  const answered = new Promise((resolve, reject) =>
    request.on('error', reject).on('response', (response) => response.resume().on('end', resolve)),
  )
  request.end(JSON.stringify({ sql: SQL }))
  await until(() => body !== undefined, 'the operation begins')
  return { request, answered }
}

test('is there for the operation, whole, and is given back with the answer', async () => {
  const { answered } = await ask()
  expect(JSON.parse(Buffer.from(body ?? []).toString())).toEqual({ sql: SQL })
  end()
  await answered
  expect(body?.byteLength).toBe(0)
})

test('stays if the client has gone: its worker may be ended later, and the log tells what it did', async () => {
  const { request, answered } = await ask()
  const gone = answered.catch(() => {})
  request.destroy()
  await gone
  // The server has seen the end of the connection once it has answered another one.
  await fetch(`http://127.0.0.1:${port}/healthz`)
  end()
  await until(() => server.memory.bodies.used === 0, 'the request is over')
  expect(JSON.parse(Buffer.from(body ?? []).toString())).toEqual({ sql: SQL })
})
