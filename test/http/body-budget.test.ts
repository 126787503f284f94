import { once } from 'node:events'
import { beforeEach, expect, test } from 'vitest'
import { DEFAULT_MEMORY_LIMITS } from '../../src/http/quotas/memory-budgets.ts'
import { Bench } from '../support/http/bench.ts'
import { viaFetch } from '../support/http/transports.ts'
import { answersIn, exchange } from '../support/http/wire.ts'

/** Room for bodies of 100,000 bytes: two of one account, three of all. */

const BODY = `{"value":"${'v'.repeat(100_000 - 12)}"}`

const bench = Bench.perTest(viaFetch)
let port: number

beforeEach(async () => {
  const memory = { ...DEFAULT_MEMORY_LIMITS, bodiesPerAccount: 200_000, bodiesTotal: 300_000 }
  ;({ port } = await bench.listen({ limits: { memory } }))
})

function put(length: string, { key = bench.key, cell = bench.cell } = {}): string {
  const lines = [
    `PUT /v1/databases/${cell}/kv/k HTTP/1.1`,
    'Host: x',
    `x-api-key: ${key}`,
    'Connection: close',
  ]
  return [...lines, 'Content-Type: application/json', length, '', ''].join('\r\n')
}
const whole = `Content-Length: ${BODY.length}`

/** A request that waits for its body's last byte. */
async function begin(bytes: string) {
  const begun = exchange(port, bytes)
  await once(begun.socket, 'connect')
  await exchange(port, 'GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n').ended
  return begun
}

async function answerTo(bytes: string) {
  const [answer] = answersIn(await exchange(port, bytes).ended)
  const { code, detail } = JSON.parse(answer?.body ?? '')
  return { status: answer?.status, code, detail, retryAfter: answer?.headers.get('retry-after') }
}

test('an account has room for so many bytes of bodies, and others have theirs', async () => {
  const waiting = [await begin(put(whole) + BODY.slice(1)), await begin(put(whole) + BODY.slice(1))]
  expect(await answerTo(put(whole) + BODY)).toEqual({
    status: 429,
    code: 'rate_limited',
    detail: expect.stringMatching(/has 200000 bytes of request bodies; memory\.bodiesPerAccount is 200000/),
    retryAfter: '1',
  })
  const stranger = { key: bench.strangerKey, cell: bench.fill('{stranger}') }
  await begin(put(whole, stranger) + BODY.slice(1))
  expect(await answerTo(put(whole, stranger) + BODY)).toMatchObject({ status: 503, code: 'busy' })
  // What is small has room always.
  expect(await answerTo(`${put('Content-Length: 13')}{"value":"v"}`)).toMatchObject({ status: 200 })
  for (const { socket } of waiting) socket.destroy()
})

test('a body whose length is not told is charged as it comes', async () => {
  await begin(put(whole) + BODY.slice(1))
  const chunk = `8000\r\n${'v'.repeat(0x8000)}\r\n`
  const chunked = put('Transfer-Encoding: chunked')
  expect(await answerTo(chunked + chunk.repeat(5))).toMatchObject({ status: 429, code: 'rate_limited' })
})

test('the room comes back with the answer, and if the client goes away', async () => {
  for (let i = 0; i < 5; i++) expect(await answerTo(put(whole) + BODY)).toMatchObject({ status: 200 })
  for (let i = 0; i < 5; i++) {
    const { socket, ended } = await begin(put(whole) + BODY.slice(1))
    socket.destroy()
    await ended
  }
  expect(await answerTo(put(whole) + BODY)).toMatchObject({ status: 200 })
})
