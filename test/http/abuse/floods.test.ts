import type net from 'node:net'
import { expect, test } from 'vitest'
import { countOf } from '../../support/counts.ts'
import { openIdle, Victim } from '../../support/http/victim.ts'
import { answersIn, exchange } from '../../support/http/wire.ts'

const IDLE = countOf('CELLSTORE_TEST_IDLE_SOCKETS')
const SLOW = countOf('CELLSTORE_TEST_SLOW_SOCKETS')
/** What the node gives headers and a whole request, instead of 10 s and 30 s: what it does then is the same. */
const SOON = ['--request-timeout', '4s']
/** All have to be open before the first is ended. Headers never get more than 10 s. */
const OPENING = ['--request-timeout', `${2 + Math.ceil(IDLE / 500)}s`]
const SLOW_MS = 60_000

/** Sends the beginning, and then a byte now and then for as long as the connection lives. @returns what came back */
function drip(port: number, beginning: string, rest: string): Promise<string> {
  const { socket, ended } = exchange(port, beginning)
  let at = 0
  const timer = setInterval(() => socket.write(rest[at++ % rest.length] ?? ''), 100)
  return ended.finally(() => clearInterval(timer))
}

test(
  `${SLOW} heads and ${SLOW} bodies that trickle in are ended with 408 in their time, and others are answered meanwhile`,
  async () => {
    const victim = await Victim.start(...SOON)
    const put = victim.head(
      'PUT',
      victim.kv('slow'),
      'Content-Type: application/json',
      'Content-Length: 100000',
    )
    const heads = Array.from({ length: SLOW }, () =>
      drip(victim.port, 'GET /healthz HTTP/1.1\r\n', 'X-Y: z\r\n'),
    )
    const bodies = Array.from({ length: SLOW }, () => drip(victim.port, put, ' '))
    for (const received of await Promise.all([...heads, ...bodies])) {
      const answers = answersIn(received)
      expect(answers.map(({ status }) => status)).toEqual([408])
      expect(JSON.parse(answers[0]?.body ?? '')).toMatchObject({ code: 'request_timeout' })
    }
    console.info(`slow requests: ${SLOW} heads, ${SLOW} bodies; ${await victim.check()}`)
  },
  SLOW_MS + SLOW * 20,
)

test(
  `${IDLE} connections that say nothing, half of them after a request, are ended in their time, and others are answered meanwhile`,
  async () => {
    const victim = await Victim.start(...OPENING)
    const sockets: (net.Socket | undefined)[] = []
    for (let i = 0; i < IDLE; i += 50)
      sockets.push(
        ...(await Promise.all(Array.from({ length: Math.min(50, IDLE - i) }, () => openIdle(victim.port)))),
      )
    const half = sockets.slice(0, IDLE / 2)
    for (const socket of half) socket?.write(victim.head('GET', '/healthz'))
    const open = () => sockets.filter((socket) => socket !== undefined && !socket.destroyed).length
    const most = open()
    for (const socket of sockets) socket?.resume()
    // The node ends all of them: those that said nothing as late requests, the others as idle ones.
    await Promise.all(
      sockets.map(
        (socket) =>
          socket === undefined || socket.destroyed || new Promise((resolve) => socket.once('close', resolve)),
      ),
    )
    console.info(`idle connections: ${most} open at once of ${IDLE}; ${await victim.check()}`)
    expect(most).toBe(IDLE)
  },
  SLOW_MS + IDLE * 10,
)

test('everything that is too large is refused with its code, and other requests do not suffer', async () => {
  const victim = await Victim.start()
  const json = 'Content-Type: application/json'
  const body = (method: string, path: string, text: string) =>
    victim.head(method, path, json, 'Connection: close', `Content-Length: ${text.length}`) + text
  const cell = `/v1/databases/${victim.cell}`
  const deep = '['.repeat(100_000) + ']'.repeat(100_000)
  const CASES: [what: string, bytes: string, status: number, code: string][] = [
    ['a body', body('PUT', victim.kv('k'), 'x'.repeat(3_000_000)), 413, 'body_too_large'],
    ['a body of 15 MB', body('POST', `${cell}/sql`, 'x'.repeat(15_000_000)), 413, 'body_too_large'],
    [
      'a body in chunks',
      victim.head('PUT', victim.kv('k'), json, 'Connection: close', 'Transfer-Encoding: chunked') +
        `${'10000\r\n'}${'x'.repeat(65_536)}\r\n`.repeat(40) +
        '0\r\n\r\n',
      413,
      'body_too_large',
    ],
    ['a value', body('PUT', victim.kv('k'), `{"value":"${'v'.repeat(1_048_577)}"}`), 413, 'value_too_large'],
    ['a key', victim.head('GET', victim.kv('k'.repeat(1_025)), 'Connection: close'), 400, 'invalid_key'],
    ['a target', victim.head('GET', victim.kv('k'.repeat(20_000))), 431, 'headers_too_large'],
    ['a header', victim.head('GET', '/healthz', `X: ${'x'.repeat(1_000_000)}`), 431, 'headers_too_large'],
    [
      'headers',
      victim.head('GET', '/healthz', ...Array.from({ length: 10_000 }, (_, i) => `X${i}: x`)),
      431,
      'headers_too_large',
    ],
    [
      'a statement',
      body('POST', `${cell}/sql`, `{"sql":"SELECT '${'x'.repeat(110_000)}'"}`),
      413,
      'sql_too_long',
    ],
    ['a depth of JSON', body('POST', `${cell}/sql`, deep), 400, 'invalid_request'],
    [
      'a depth of a parameter',
      body('POST', `${cell}/sql`, `{"sql":"SELECT ?","params":[${deep}]}`),
      400,
      'invalid_parameter',
    ],
    ['a depth of a batch', body('POST', `${cell}/batch`, `{"operations":[${deep}]}`), 400, 'invalid_request'],
    ['a depth of a new cell', body('POST', '/v1/databases', `{"name":${deep}}`), 400, 'invalid_request'],
    [
      'a batch',
      body(
        'POST',
        `${cell}/batch`,
        `{"operations":[${'{"sql":"SELECT 1"},'.repeat(1_000)}{"sql":"SELECT 1"}]}`,
      ),
      400,
      'invalid_request',
    ],
    [
      'a list of keys',
      body('POST', `${cell}/kv/ops/mget`, JSON.stringify({ keys: Array(1_001).fill('k') })),
      400,
      'invalid_request',
    ],
    [
      'a number',
      body('POST', `${cell}/kv/ops/incr`, `{"key":"n","delta":${'9'.repeat(1_000_000)}}`),
      400,
      'invalid_request',
    ],
  ]
  for (const [what, bytes, status, code] of CASES) {
    const answers = answersIn(await exchange(victim.port, bytes).ended)
    expect([what, answers[0]?.status, JSON.parse(answers[0]?.body ?? 'null')?.code]).toEqual([
      what,
      status,
      code,
    ])
  }
  console.info(`oversized requests: ${CASES.length} kinds; ${await victim.check()}`)
})
