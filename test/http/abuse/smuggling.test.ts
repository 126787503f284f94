import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { Bench } from '../../support/http/bench.ts'
import { viaFetch } from '../../support/http/transports.ts'
import { answersIn, exchange, type WireAnswer } from '../../support/http/wire.ts'

/**
 * Shapes of requests that one program in front takes for one request and another behind for two. Each is refused with its
 * connection closed, or is one request whose end nobody doubts; what is hidden inside is never carried out.
 */

let bench: Bench
let port: number

beforeAll(async () => {
  bench = await Bench.open(viaFetch)
  ;({ port } = await bench.listen({ connections: { headersMs: 300, requestMs: 400 } }))
})

afterAll(async () => {
  await bench.close()
})

const put = (name: string, ...headers: string[]) =>
  bench.head('PUT', `/v1/databases/{cell}/kv/${name}`, ...headers, 'Content-Type: application/json')
const get = (...headers: string[]) => bench.head('GET', '/v1/databases', ...headers)
const BODY = '{"value":"v"}'
const hidden = () => `${put('hidden', `Content-Length: ${BODY.length}`, 'Connection: close')}${BODY}`
const chunk = (text: string, extension = '') => `${text.length.toString(16)}${extension}\r\n${text}\r\n`

async function send(bytes: string): Promise<WireAnswer[]> {
  const answers = answersIn(await exchange(port, Buffer.from(bytes, 'latin1')).ended)
  expect(bench.store.openCell(bench.cell).kv.get('hidden')).toBeUndefined()
  expect(bench.logged).toEqual([])
  return answers
}

const length = `Content-Length: ${BODY.length}`
const CHUNKED = 'Transfer-Encoding: chunked'

const REFUSED: [what: string, bytes: () => string][] = [
  [
    'a length and chunks',
    () => `${put('k', 'Content-Length: 5', CHUNKED)}${chunk(BODY)}0\r\n\r\n${hidden()}`,
  ],
  ['chunks and a length', () => `${put('k', CHUNKED, 'Content-Length: 5')}0\r\n\r\n${hidden()}`],
  ['two lengths', () => `${put('k', length, 'Content-Length: 0')}${BODY}${hidden()}`],
  ['the same length twice', () => `${put('k', length, length)}${BODY}${hidden()}`],
  ['a list of lengths', () => `${put('k', 'Content-Length: 13, 13')}${BODY}${hidden()}`],
  ...['+13', '-1', '0x0d', '1e1', '13 13', '', '99999999999999999999999'].map(
    (value): [string, () => string] => [
      `a length of ${JSON.stringify(value)}`,
      () => `${put('k', `Content-Length: ${value}`)}${BODY}${hidden()}`,
    ],
  ),
  ...['xchunked', 'chunked, identity', 'identity', 'chunked;q=1', '\x0bchunked', '"chunked"'].map(
    (value): [string, () => string] => [
      `an encoding of ${JSON.stringify(value)}`,
      () => `${put('k', `Transfer-Encoding: ${value}`)}0\r\n\r\n${hidden()}`,
    ],
  ),
  ['a blank before the colon', () => `${put('k', `Content-Length : ${BODY.length}`)}${BODY}${hidden()}`],
  ['a blank before a name', () => `${put('k', ` ${CHUNKED}`, length)}${BODY}${hidden()}`],
  ['a folded header', () => `${put('k', 'X: a\r\n b', length)}${BODY}${hidden()}`],
  ['a folded encoding', () => `${put('k', 'Transfer-Encoding:\r\n chunked')}0\r\n\r\n${hidden()}`],
  ['lines that end with a bare LF', () => `${put('k', length).replaceAll('\r\n', '\n')}${BODY}${hidden()}`],
  ['one line that ends with a bare LF', () => `${put('k', `X: a\n${length}`)}${BODY}${hidden()}`],
  ['a line that ends with a bare CR', () => `${put('k', `X: a\r${CHUNKED}`)}0\r\n\r\n${hidden()}`],
  ['a NUL in a header', () => `${put('k', 'X: a\0b', length)}${BODY}${hidden()}`],
  ['a name with a bracket', () => `${put('k', 'Content-Length[]: 1', length)}${BODY}${hidden()}`],
  ['a header without a colon', () => `${put('k', 'hello', length)}${BODY}${hidden()}`],
  ...['xyz', '-1', '0x5', '5 5', '', 'fffffffffffffffff'].map((size): [string, () => string] => [
    `a chunk of ${JSON.stringify(size)} bytes`,
    () => `${put('k', CHUNKED)}${size}\r\n${BODY}\r\n0\r\n\r\n${hidden()}`,
  ]),
  ['a chunk that is longer than it says', () => `${put('k', CHUNKED)}3\r\n${BODY}\r\n0\r\n\r\n${hidden()}`],
  ['a chunk whose size ends with a bare LF', () => `${put('k', CHUNKED)}d\n${BODY}\r\n0\r\n\r\n${hidden()}`],
  ['a chunk that ends with a bare LF', () => `${put('k', CHUNKED)}d\r\n${BODY}\n0\r\n\r\n${hidden()}`],
  ['an extension with a bare LF', () => `${put('k', CHUNKED)}d;a\nb\r\n${BODY}\r\n0\r\n\r\n${hidden()}`],
  [
    'a trailer that says another length',
    () => `${put('k', CHUNKED)}${chunk(BODY)}0\r\nContent-Length: 500\r\n\r\n${hidden()}`,
  ],
  ['no host', () => get().replace('Host: x\r\n', '')],
  ['a method in small letters', () => get().replace('GET', 'get')],
  ['a method that is none', () => get().replace('GET', 'SMUGGLE')],
  ['another version', () => get().replace('HTTP/1.1', 'HTTP/1.2')],
  ['the preface of HTTP/2', () => 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'],
  ['a blank in the target', () => get().replace('/v1/databases', '/v1/data bases')],
  ['a CONNECT', () => `CONNECT x:80 HTTP/1.1\r\nHost: x:80\r\n\r\n${hidden()}`],
]

describe('refused, and the connection closed:', () => {
  test.each(REFUSED)('%s', async (_what, bytes) => {
    const answers = await send(bytes())
    expect(answers.map(({ status }) => status)).toEqual([400])
    expect(answers[0]?.headers.get('connection')).toBe('close')
    expect(JSON.parse(answers[0]?.body ?? '')).toMatchObject({ status: 400, code: 'invalid_request' })
  })
})

const TAKEN: [what: string, bytes: () => string, statuses: number[]][] = [
  [
    'chunks with an extension',
    () => `${put('k', CHUNKED)}${chunk(BODY, ';a=b;c="d"')}0\r\n\r\n${get('Connection: close')}`,
    [200, 200],
  ],
  [
    'a request hidden in a body',
    () => `${put('k', `Content-Length: ${hidden().length}`, 'Connection: close')}${hidden()}`,
    [400],
  ],
  ['a body on a GET', () => `${get(length)}${BODY}${get('Connection: close')}`, [200, 200]],
  ['empty lines before a request', () => `\r\n\r\n${get('Connection: close')}`, [200]],
  [
    'a whole address as the target',
    () => get('Connection: close').replace('/v1/', 'http://other/v1/'),
    [200],
  ],
  ['an expectation that nobody knows', () => get('Expect: the-unexpected', 'Connection: close'), [200]],
  ['an upgrade that nobody offers', () => get('Connection: upgrade, close', 'Upgrade: websocket'), [200]],
  ['no version at all, as the first clients wrote it', () => 'GET /healthz\r\n\r\n', [200]],
  ['an old version', () => get().replace('HTTP/1.1', 'HTTP/1.0'), [200]],
]

describe('taken for what it is:', () => {
  test.each(TAKEN)('%s', async (_what, bytes, statuses) => {
    expect((await send(bytes())).map(({ status }) => status)).toEqual(statuses)
  })

  test('a hundred requests in one go, answered in their order', async () => {
    const ids = Array.from({ length: 100 }, (_, i) => `request-${i}`)
    const requests = ids.map((id, i) =>
      get(`X-Request-Id: ${id}`, ...(i === 99 ? ['Connection: close'] : [])),
    )
    const answers = await send(requests.join(''))
    expect(answers.map(({ headers }) => headers.get('x-request-id'))).toEqual(ids)
  })
})
