import type { Random } from '../random.ts'
import type { Victim } from './victim.ts'

/** Bytes of requests, most of them almost right: the wrong ones that come closest are the ones that get furthest. */
export class Mutator {
  readonly #random: Random
  readonly #seeds: string[]

  constructor(random: Random, victim: Victim) {
    this.#random = random
    this.#seeds = validRequests(victim)
  }

  /** The next request, or what is left of one. Latin-1: a character is a byte. */
  next(): string {
    const random = this.#random
    if (random.chance(0.05)) return this.#noise(random.below(400))
    let bytes = random.pick(this.#seeds)
    for (let steps = random.below(4); steps >= 0; steps--) bytes = this.#mutate(bytes)
    return bytes
  }

  #mutate(bytes: string): string {
    const random = this.#random
    const at = random.below(bytes.length + 1)
    const end = at + random.below(random.chance(0.8) ? 8 : 400)
    switch (random.below(10)) {
      case 0:
        return bytes.slice(0, at) + String.fromCharCode(random.below(256)) + bytes.slice(at + 1)
      case 1:
        return bytes.slice(0, at) + bytes.slice(end)
      case 2:
        return bytes.slice(0, end) + bytes.slice(at)
      case 3:
        return bytes.slice(0, at) + this.#noise(random.below(20)) + bytes.slice(at)
      case 4:
        return bytes.slice(0, at) + random.pick(TOKENS) + bytes.slice(at)
      case 5:
        return bytes.replace('\r\n', `\r\n${random.pick(HEADERS)}\r\n`)
      case 6:
        return bytes.replace(/^\S*/, random.pick(METHODS))
      case 7:
        return bytes.replace(/\d+/, random.pick(NUMBERS))
      case 8:
        return bytes.slice(0, at) + random.pick(this.#seeds).slice(random.below(200))
      default:
        return bytes + random.pick(this.#seeds)
    }
  }

  #noise(length: number): string {
    return Array.from({ length }, () => String.fromCharCode(this.#random.below(256))).join('')
  }
}

const METHODS = [
  'GET',
  'PUT',
  'POST',
  'DELETE',
  'HEAD',
  'OPTIONS',
  'PATCH',
  'TRACE',
  'CONNECT',
  'QUERY',
  'get',
  '',
]
const NUMBERS = [
  '0',
  '-1',
  '5',
  '1e9',
  '9223372036854775807',
  '9223372036854775808',
  '9'.repeat(400),
  '0x10',
  '٣',
]
const TOKENS = [
  ...[
    '\r\n',
    '\n',
    '\r',
    '\0',
    ' ',
    '\t',
    ':',
    '/',
    '//',
    '/../',
    '/./',
    '?',
    '#',
    '%',
    '%00',
    '%2F',
    '%2e',
    '%ff',
  ],
  ...['{', '}', '[', ']', '"', '\\', '\\ud800', '\\u0000', ',', 'null', 'true', '[[[[[[[[', '{"a":'],
  ...[
    '\xff\xfe',
    '\xc3\x28',
    '\xf0\x9f\x8c\xb2',
    '\xed\xa0\x80',
    '\xef\xbb\xbf',
    'A'.repeat(5_000),
    '%41'.repeat(2_000),
  ],
  ...["'; DROP TABLE t; --", 'ATTACH', '__proto__', 'constructor', '_cell_kv', 'cell_sk_'],
]
const HEADERS = [
  ...['Transfer-Encoding: chunked', 'Content-Length: 5', 'Content-Length: 0', 'Content-Length: 99999999'],
  ...['Expect: 100-continue', 'Expect: nothing', 'Connection: close', 'Connection: keep-alive, upgrade'],
  ...['Upgrade: websocket', 'Upgrade: h2c', 'Content-Encoding: gzip', 'Content-Type: text/plain', 'Host: y'],
  ...['Content-Type: application/json; charset=utf-16', 'X-Request-Id: <script>', 'Authorization: Bearer x'],
  ...[
    'x-api-key: cell_sk_',
    'Idempotency-Key: k',
    'Range: bytes=0-1',
    'If-Match: *',
    `X: ${'x'.repeat(17_000)}`,
  ],
]

const BODIES: [method: string, path: string, body: unknown][] = [
  ['PUT', '/kv/key', { value: 'v', ttl_seconds: 60 }],
  ['PUT', '/kv/caf%C3%A9%2F1', { value: 'v', keep_ttl: true }],
  ['POST', '/kv/ops/incr', { key: 'n', delta: 5, ttl_seconds: 60 }],
  ['POST', '/kv/ops/ttl', { keys: ['key', 'n'] }],
  ['POST', '/kv/ops/expire', { key: 'key', ttl_seconds: 5 }],
  ['POST', '/kv/ops/mget', { keys: ['key', 'n', '.'] }],
  ['POST', '/kv/ops/mset', { entries: [{ key: 'a', value: 'b', ttl_seconds: 9 }] }],
  ['POST', '/kv/ops/delete', { keys: ['a'] }],
  [
    'POST',
    '/sql',
    { sql: 'SELECT ?1 AS a, key FROM cell_kv WHERE key > ?2', params: [1, 'a'], timeout_ms: 900 },
  ],
  ['POST', '/sql', { sql: 'CREATE TABLE IF NOT EXISTS t (a INTEGER, b BLOB)', row_mode: 'array' }],
  [
    'POST',
    '/sql',
    { sql: 'INSERT INTO t VALUES (:a, :b)', params: { a: 1, b: { type: 'blob', base64: 'aGk=' } } },
  ],
  ['POST', '/batch', { operations: [{ kv: 'incr', key: 'm' }, { sql: 'DELETE FROM t' }], timeout_ms: 900 }],
]
const PLAIN = [
  'GET /kv/key',
  'GET /kv?prefix=k&limit=5&values&reverse',
  'GET /backups?limit=1',
  'DELETE /kv/key',
  'GET ',
]

/** One of every kind; nothing that ends the cell or the key that the others need. */
function validRequests(victim: Victim): string[] {
  const cell = `/v1/databases/${victim.cell}`
  const close = 'Connection: close'
  const plain = PLAIN.map((line) => line.split(' ')).map(([method = '', path = '']) =>
    victim.head(method, cell + path, close),
  )
  const others = ['/healthz', '/readyz', '/v1/databases?limit=2', '/v1/api-keys', '/v1/nothing']
  const account = others.map((path) => victim.head('GET', path, close))
  const withBody = [...BODIES.map(([method, path, body]) => [method, cell + path, body] as const), CREATE]
  const typed = 'Content-Type: application/json'
  return [
    ...plain,
    ...account,
    ...withBody.flatMap(([method, path, body]) => {
      const json = Buffer.from(JSON.stringify(body)).toString('latin1')
      const chunks = `${json.length.toString(16)}\r\n${json}\r\n0\r\n\r\n`
      return [
        victim.head(method, path, typed, close, `Content-Length: ${json.length}`) + json,
        victim.head(method, path, typed, close, 'Transfer-Encoding: chunked') + chunks,
      ]
    }),
  ]
}

const CREATE = ['POST', '/v1/databases', { name: 'acme' }] as const
