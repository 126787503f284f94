import { expect } from 'vitest'
import type { Ask } from '../support/bench.ts'
import { badPages, CURSOR, type Row, TIME } from './row.ts'

const kv = '/v1/databases/{cell}/kv'
const put = (key: string, body: unknown): Ask => ({ method: 'PUT', path: `${kv}/${key}`, body })
const get = (key: string): Ask => ({ method: 'GET', path: `${kv}/${key}` })
const op = (name: string, body: unknown): Ask => ({ method: 'POST', path: `${kv}/ops/${name}`, body })

const TTL_MAX = 3_153_600_000
const IN_A_MINUTE = '2026-11-21T02:03:13.123Z'
const persistent = { ttl_seconds: -1, expires_at: null }

/** What is no time to live, and whether the limit is named: it is where the number is out of range. */
const BAD_TTLS: [raw: string, limit: boolean][] = [
  ['0', true],
  ['-1', true],
  [String(TTL_MAX + 1), true],
  ['1.5', false],
  ['"60"', false],
  ['true', false],
  ['[60]', false],
  ['1e300', false],
  ['99999999999999999999', false],
]

/** A body with a time to live that is none, in each operation that takes one. */
function badTtls(what: string, field: string, ask: (ttl: string) => Ask): Row[] {
  return BAD_TTLS.map(([ttl, limit]) => ({
    title: `${what} with a TTL of ${ttl}`,
    ask: ask(ttl),
    status: 400,
    problem: { code: 'invalid_ttl', field, ...(limit ? { limit: TTL_MAX } : {}) },
  }))
}

/** Lists of keys, in each operation that takes one. */
function badKeyLists(name: string): Row[] {
  const many = (count: number) => ({ keys: Array.from({ length: count }, (_, i) => `k${i}`) })
  return [
    {
      title: `${name} without keys`,
      ask: op(name, {}),
      status: 400,
      problem: { code: 'invalid_request', field: 'keys' },
    },
    {
      title: `${name} of a single key`,
      ask: op(name, { keys: 'k' }),
      status: 400,
      problem: { code: 'invalid_request', field: 'keys' },
    },
    {
      title: `${name} of a number`,
      ask: op(name, { keys: ['k', 5] }),
      status: 400,
      problem: { code: 'invalid_request', field: 'keys[1]' },
    },
    {
      title: `${name} of an empty key`,
      ask: op(name, { keys: ['k', ''] }),
      status: 400,
      problem: { code: 'invalid_key', field: 'keys[1]' },
    },
    { title: `${name} of 1,000 keys`, ask: op(name, many(1_000)), status: 200, body: expect.anything() },
    {
      title: `${name} of 1,001 keys`,
      ask: op(name, many(1_001)),
      status: 400,
      problem: { code: 'invalid_request', field: 'keys', limit: 1_000 },
    },
  ]
}

/** Keys in a path, as they are sent, and what they name. */
const PATH_KEYS: [sent: string, key: string][] = [
  ['user:1', 'user:1'],
  ['a%2Fb', 'a/b'],
  ['a%2fb', 'a/b'],
  ['%41', 'A'],
  ['%2541', '%41'],
  ['a+b', 'a+b'],
  ['a%20b', 'a b'],
  ['%C3%A9', 'é'],
  ['%F0%9F%98%80', '😀'],
  ['e%CC%81', 'e\u0301'],
  ['ops', 'ops'],
  ['...', '...'],
  ['~!$&()*,;=@', '~!$&()*,;=@'],
  ['%3F%23', '?#'],
  ['%0A', '\n'],
  ['k'.repeat(1_024), 'k'.repeat(1_024)],
  ['%C3%A9'.repeat(512), 'é'.repeat(512)],
]

const BAD_PATH_KEYS: [what: string, sent: string, members: object][] = [
  ['empty', '', {}],
  ['of 1,025 bytes', 'k'.repeat(1_025), { limit: 1_024 }],
  ['of 513 characters and 1,026 bytes', '%C3%A9'.repeat(513), { limit: 1_024 }],
  ['with a NUL', 'a%00b', {}],
  ['of no UTF-8', '%ff', {}],
  ['of half an escape', 'a%2', {}],
  ['an encoded lone surrogate', '%ED%A0%80', {}],
]

export const KV_ROWS: Row[] = [
  {
    title: 'a new entry',
    ask: put('k', { value: 'v' }),
    status: 200,
    body: { key: 'k', created: true, ...persistent },
  },
  {
    title: 'a new entry with a TTL',
    ask: put('k', { value: 'v', ttl_seconds: 60 }),
    status: 200,
    body: { key: 'k', created: true, ttl_seconds: 60, expires_at: IN_A_MINUTE },
  },
  {
    title: 'a put over an entry with a TTL, which makes it persistent',
    before: [put('k', { value: 'v', ttl_seconds: 60 })],
    ask: put('k', { value: 'w' }),
    status: 200,
    body: { key: 'k', created: false, ...persistent },
  },
  {
    title: 'a put that keeps the TTL',
    before: [put('k', { value: 'v', ttl_seconds: 60 })],
    ask: put('k', { value: 'w', keep_ttl: true }),
    status: 200,
    body: { key: 'k', created: false, ttl_seconds: 60, expires_at: IN_A_MINUTE },
  },
  {
    title: 'the longest TTL',
    ask: put('k', { value: 'v', ttl_seconds: TTL_MAX }),
    status: 200,
    body: { key: 'k', created: true, ttl_seconds: TTL_MAX, expires_at: TIME },
  },
  {
    title: 'the shortest TTL',
    ask: put('k', { value: 'v', ttl_seconds: 1 }),
    status: 200,
    body: { key: 'k', created: true, ttl_seconds: 1, expires_at: TIME },
  },
  {
    title: 'an empty value',
    ask: put('k', { value: '' }),
    status: 200,
    body: { key: 'k', created: true, ...persistent },
  },
  {
    title: 'a value of 1 MiB',
    ask: put('k', { value: 'v'.repeat(1_048_576) }),
    status: 200,
    body: { key: 'k', created: true, ...persistent },
  },
  {
    title: 'a value of 1 MiB and a byte',
    ask: put('k', { value: 'v'.repeat(1_048_577) }),
    status: 413,
    problem: { code: 'value_too_large', field: 'value', limit: 1_048_576 },
  },
  {
    title: 'a put of no value',
    ask: put('k', {}),
    status: 400,
    problem: { code: 'invalid_request', field: 'value' },
  },
  ...[5, null, true, { a: 1 }, ['v']].map(
    (value): Row => ({
      title: `a value that is ${JSON.stringify(value)}`,
      ask: put('k', { value }),
      status: 400,
      problem: { code: 'invalid_request', field: 'value' },
    }),
  ),
  {
    title: 'a value with a lone surrogate',
    ask: { method: 'PUT', path: `${kv}/k`, raw: '{"value":"\\ud800"}' },
    status: 400,
    problem: { code: 'invalid_request', field: 'value' },
  },
  ...badTtls('a put', 'ttl_seconds', (ttl) => ({
    method: 'PUT',
    path: `${kv}/k`,
    raw: `{"value":"v","ttl_seconds":${ttl}}`,
  })),
  {
    title: 'a put with a TTL of null',
    ask: put('k', { value: 'v', ttl_seconds: null }),
    status: 400,
    problem: { code: 'invalid_ttl', field: 'ttl_seconds' },
  },
  {
    title: 'keep_ttl that is no boolean',
    ask: put('k', { value: 'v', keep_ttl: 1 }),
    status: 400,
    problem: { code: 'invalid_request', field: 'keep_ttl' },
  },
  {
    title: 'a TTL and keep_ttl',
    ask: put('k', { value: 'v', ttl_seconds: 5, keep_ttl: true }),
    status: 400,
    problem: { code: 'invalid_ttl', field: 'keep_ttl' },
  },

  ...PATH_KEYS.flatMap(([sent, key]): Row[] => [
    {
      title: `a put at ${shown(sent)}`,
      ask: put(sent, { value: 'v' }),
      status: 200,
      body: { key, created: true, ...persistent },
    },
    {
      title: `a get at ${shown(sent)}`,
      before: [op('mset', { entries: [{ key, value: 'v' }] })],
      ask: get(sent),
      status: 200,
      body: { key, value: 'v', ...persistent },
    },
    {
      title: `a delete at ${shown(sent)}`,
      before: [op('mset', { entries: [{ key, value: 'v' }] })],
      ask: { method: 'DELETE', path: `${kv}/${sent}` },
      status: 200,
      body: { key, deleted: true },
    },
  ]),
  ...BAD_PATH_KEYS.flatMap(([what, sent, members]): Row[] =>
    [put(sent, { value: 'v' }), get(sent), { method: 'DELETE', path: `${kv}/${sent}` }].map((ask) => ({
      title: `${ask.method} at a key ${what}`,
      ask,
      status: 400,
      problem: { code: 'invalid_key', field: 'key', ...members },
    })),
  ),
  { title: 'a key with a bare slash', ask: get('a/b'), status: 404, problem: { code: 'not_found' } },

  {
    title: 'an entry',
    before: [put('k', { value: '{"not":"parsed"}', ttl_seconds: 60 })],
    ask: get('k'),
    status: 200,
    body: { key: 'k', value: '{"not":"parsed"}', ttl_seconds: 60, expires_at: IN_A_MINUTE },
  },
  { title: 'a missing entry', ask: get('missing'), status: 404, problem: { code: 'key_not_found' } },
  {
    title: 'the deletion of a missing entry',
    ask: { method: 'DELETE', path: `${kv}/missing` },
    status: 200,
    body: { key: 'missing', deleted: false },
  },

  {
    title: 'incr of a missing key',
    ask: op('incr', { key: 'n' }),
    status: 200,
    body: { key: 'n', value: 1, ttl_seconds: -1 },
  },
  {
    title: 'incr with a TTL for a new key',
    ask: op('incr', { key: 'n', ttl_seconds: 60 }),
    status: 200,
    body: { key: 'n', value: 1, ttl_seconds: 60 },
  },
  {
    title: 'incr of a live key, which keeps its TTL',
    before: [put('n', { value: '41', ttl_seconds: 60 })],
    ask: op('incr', { key: 'n', ttl_seconds: 5 }),
    status: 200,
    body: { key: 'n', value: 42, ttl_seconds: 60 },
  },
  {
    title: 'a negative delta',
    ask: op('incr', { key: 'n', delta: -7 }),
    status: 200,
    body: { key: 'n', value: -7, ttl_seconds: -1 },
  },
  {
    title: 'a delta of 0',
    ask: op('incr', { key: 'n', delta: 0 }),
    status: 200,
    body: { key: 'n', value: 0, ttl_seconds: -1 },
  },
  {
    title: 'a delta beyond 2^53, exactly',
    ask: { method: 'POST', path: `${kv}/ops/incr`, raw: '{"key":"n","delta":9007199254740993}' },
    status: 200,
    body: { key: 'n', value: '9007199254740993', ttl_seconds: -1 },
  },
  {
    title: 'a delta in the typed form',
    ask: op('incr', { key: 'n', delta: { type: 'integer', value: '9223372036854775807' } }),
    status: 200,
    body: { key: 'n', value: '9223372036854775807', ttl_seconds: -1 },
  },
  {
    title: 'a value beyond 2^53, read back as its digits',
    before: [op('incr', { key: 'n', delta: { type: 'integer', value: '9007199254740993' } })],
    ask: get('n'),
    status: 200,
    body: { key: 'n', value: '9007199254740993', ...persistent },
  },
  {
    title: 'an overflow',
    before: [op('mset', { entries: [{ key: 'n', value: '9223372036854775807' }] })],
    ask: op('incr', { key: 'n' }),
    status: 400,
    problem: { code: 'integer_overflow', field: 'delta' },
  },
  ...['x', '', '1.5', ' 1', '01', '+1', '9223372036854775808', '1e3'].map(
    (value): Row => ({
      title: `incr of the value ${JSON.stringify(value)}`,
      before: [op('mset', { entries: [{ key: 'n', value }] })],
      ask: op('incr', { key: 'n' }),
      status: 400,
      problem: { code: 'not_an_integer', field: 'key' },
    }),
  ),
  ...['1.5', '"1"', 'null', 'true', '1e300', '9223372036854775808', '{"type":"integer","value":"x"}'].map(
    (delta): Row => ({
      title: `a delta of ${delta}`,
      ask: { method: 'POST', path: `${kv}/ops/incr`, raw: `{"key":"n","delta":${delta}}` },
      status: 400,
      problem: { code: 'invalid_request', field: 'delta' },
    }),
  ),
  {
    title: 'incr without a key',
    ask: op('incr', {}),
    status: 400,
    problem: { code: 'invalid_request', field: 'key' },
  },
  {
    title: 'incr of a key that is no string',
    ask: op('incr', { key: 1 }),
    status: 400,
    problem: { code: 'invalid_request', field: 'key' },
  },
  {
    title: 'incr of an empty key',
    ask: op('incr', { key: '' }),
    status: 400,
    problem: { code: 'invalid_key', field: 'key' },
  },
  {
    title: 'incr of a key of 1,024 bytes',
    ask: op('incr', { key: 'k'.repeat(1_024) }),
    status: 200,
    body: { key: 'k'.repeat(1_024), value: 1, ttl_seconds: -1 },
  },
  {
    title: 'incr of a key of 1,025 bytes',
    ask: op('incr', { key: 'k'.repeat(1_025) }),
    status: 400,
    problem: { code: 'invalid_key', field: 'key', limit: 1_024 },
  },
  {
    title: 'incr of a key with a lone surrogate',
    ask: { method: 'POST', path: `${kv}/ops/incr`, raw: '{"key":"\\udc00"}' },
    status: 400,
    problem: { code: 'invalid_key', field: 'key' },
  },
  ...badTtls('incr', 'ttl_seconds', (ttl) => ({
    method: 'POST',
    path: `${kv}/ops/incr`,
    raw: `{"key":"n","ttl_seconds":${ttl}}`,
  })),

  {
    title: 'TTLs, in the order of the keys, with repeats',
    before: [put('a', { value: '', ttl_seconds: 60 }), put('b', { value: '' })],
    ask: op('ttl', { keys: ['a', 'b', 'missing', 'a'] }),
    status: 200,
    body: [60, -1, null, 60],
  },
  { title: 'TTLs of no keys', ask: op('ttl', { keys: [] }), status: 200, body: [] },
  {
    title: 'the TTL of an entry in its last millisecond',
    bench: {},
    before: async (bench) => {
      await bench.send(put('a', { value: '', ttl_seconds: 1 }))
      bench.clock.step(999)
    },
    ask: op('ttl', { keys: ['a'] }),
    status: 200,
    body: [1],
  },
  ...badKeyLists('ttl'),

  {
    title: 'expire with a TTL',
    before: [put('k', { value: 'v' })],
    ask: op('expire', { key: 'k', ttl_seconds: 60 }),
    status: 200,
    body: { key: 'k', updated: true, ttl_seconds: 60 },
  },
  {
    title: 'expire without a TTL, which removes it',
    before: [put('k', { value: 'v', ttl_seconds: 60 })],
    ask: op('expire', { key: 'k' }),
    status: 200,
    body: { key: 'k', updated: true, ttl_seconds: -1 },
  },
  {
    title: 'expire with a TTL of null, which removes it',
    before: [put('k', { value: 'v', ttl_seconds: 60 })],
    ask: op('expire', { key: 'k', ttl_seconds: null }),
    status: 200,
    body: { key: 'k', updated: true, ttl_seconds: -1 },
  },
  {
    title: 'expire of a missing key',
    ask: op('expire', { key: 'k', ttl_seconds: 60 }),
    status: 200,
    body: { key: 'k', updated: false, ttl_seconds: null },
  },
  {
    title: 'expire without a key',
    ask: op('expire', { ttl_seconds: 1 }),
    status: 400,
    problem: { code: 'invalid_request', field: 'key' },
  },
  {
    title: 'expire of an empty key',
    ask: op('expire', { key: '' }),
    status: 400,
    problem: { code: 'invalid_key', field: 'key' },
  },
  ...badTtls('expire', 'ttl_seconds', (ttl) => ({
    method: 'POST',
    path: `${kv}/ops/expire`,
    raw: `{"key":"k","ttl_seconds":${ttl}}`,
  })),

  {
    title: 'a page of entries, in UTF-8 byte order, without values',
    before: [
      op('mset', {
        entries: [
          { key: '😀', value: '3' },
          { key: '｡', value: '2' },
          { key: 'a', value: '1', ttl_seconds: 60 },
        ],
      }),
    ],
    ask: { method: 'GET', path: kv },
    status: 200,
    body: {
      entries: [
        { key: 'a', ttl_seconds: 60, expires_at: IN_A_MINUTE },
        { key: '｡', ...persistent },
        { key: '😀', ...persistent },
      ],
      next_cursor: null,
    },
  },
  {
    title: 'a page of entries, backwards, with values and a prefix',
    before: [op('mset', { entries: ['a', 'b/1', 'b/2', 'b/3', 'c'].map((key) => ({ key, value: key })) })],
    ask: { method: 'GET', path: `${kv}?prefix=b%2F&reverse&values=true&limit=2` },
    status: 200,
    body: {
      entries: [
        { key: 'b/3', value: 'b/3', ...persistent },
        { key: 'b/2', value: 'b/2', ...persistent },
      ],
      next_cursor: CURSOR,
    },
  },
  {
    title: 'a prefix that would be a pattern',
    before: [put('abc', { value: '' })],
    ask: { method: 'GET', path: `${kv}?prefix=%25` },
    status: 200,
    body: { entries: [], next_cursor: null },
  },
  {
    title: 'a page of 1,000',
    ask: { method: 'GET', path: `${kv}?limit=1000` },
    status: 200,
    body: { entries: [], next_cursor: null },
  },
  {
    title: 'a page that is shorter because its values are large',
    before: async (bench) => {
      const value = 'v'.repeat(1_000_000)
      for (let i = 0; i < 12; i++) await bench.send(put(`k${String(i).padStart(2, '0')}`, { value }))
      for (let i = 12; i < 20; i++) await bench.send(put(`k${i}`, { value: '' }))
    },
    ask: { method: 'GET', path: `${kv}?values&limit=100` },
    status: 200,
    body: expect.toSatisfy(({ entries, next_cursor }: { entries: unknown[]; next_cursor: string }) => {
      expect(entries).toHaveLength(10)
      expect(Buffer.from(next_cursor, 'base64url').toString()).toBe('k09')
      return true
    }),
  },
  ...badPages(kv),
  {
    title: 'a flag that is none',
    ask: { method: 'GET', path: `${kv}?reverse=yes` },
    status: 400,
    problem: { code: 'invalid_request', field: 'reverse' },
  },
  {
    title: 'a prefix of 1,025 bytes',
    ask: { method: 'GET', path: `${kv}?prefix=${'p'.repeat(1_025)}` },
    status: 400,
    problem: { code: 'invalid_key', field: 'prefix', limit: 1_024 },
  },

  {
    title: 'several entries, in the order of the keys',
    before: [put('a', { value: '1', ttl_seconds: 60 })],
    ask: op('mget', { keys: ['missing', 'a', '.', 'a'] }),
    status: 200,
    body: {
      entries: [
        null,
        { key: 'a', value: '1', ttl_seconds: 60, expires_at: IN_A_MINUTE },
        null,
        { key: 'a', value: '1', ttl_seconds: 60, expires_at: IN_A_MINUTE },
      ],
    },
  },
  ...badKeyLists('mget'),
  {
    title: 'values that are too large together',
    before: [put('a', { value: 'v'.repeat(1_000_000) })],
    ask: op('mget', { keys: new Array(17).fill('a') }),
    status: 400,
    problem: { code: 'result_too_large', limit: 10_485_760 },
  },

  {
    title: 'several puts',
    ask: op('mset', {
      entries: [
        { key: '.', value: '1' },
        { key: '..', value: '2', ttl_seconds: 60 },
      ],
    }),
    status: 200,
    body: { count: 2 },
  },
  {
    title: 'keys that a path can not hold, read back',
    before: [
      op('mset', {
        entries: [
          { key: '.', value: '1' },
          { key: '..', value: '2', ttl_seconds: 60 },
        ],
      }),
    ],
    ask: op('mget', { keys: ['.', '..'] }),
    status: 200,
    body: {
      entries: [
        { key: '.', value: '1', ...persistent },
        { key: '..', value: '2', ttl_seconds: 60, expires_at: IN_A_MINUTE },
      ],
    },
  },
  { title: 'mset of nothing', ask: op('mset', { entries: [] }), status: 200, body: { count: 0 } },
  {
    title: 'mset without entries',
    ask: op('mset', {}),
    status: 400,
    problem: { code: 'invalid_request', field: 'entries' },
  },
  {
    title: 'mset of a string',
    ask: op('mset', { entries: ['k'] }),
    status: 400,
    problem: { code: 'invalid_request', field: 'entries[0]' },
  },
  {
    title: 'mset without a key',
    ask: op('mset', { entries: [{ value: 'v' }] }),
    status: 400,
    problem: { code: 'invalid_request', field: 'entries[0].key' },
  },
  {
    title: 'mset without a value',
    ask: op('mset', { entries: [{ key: 'k', value: 'v' }, { key: 'k' }] }),
    status: 400,
    problem: { code: 'invalid_request', field: 'entries[1].value' },
  },
  {
    title: 'mset of an empty key',
    ask: op('mset', { entries: [{ key: '', value: 'v' }] }),
    status: 400,
    problem: { code: 'invalid_key', field: 'entries[0].key' },
  },
  {
    title: 'mset of a value of 1 MiB and a byte',
    ask: op('mset', { entries: [{ key: 'k', value: 'v'.repeat(1_048_577) }] }),
    status: 413,
    problem: { code: 'value_too_large', field: 'entries[0].value', limit: 1_048_576 },
  },
  ...badTtls('mset', 'entries[0].ttl_seconds', (ttl) => ({
    method: 'POST',
    path: `${kv}/ops/mset`,
    raw: `{"entries":[{"key":"k","value":"v","ttl_seconds":${ttl}}]}`,
  })),
  {
    title: 'mset of 1,000 entries',
    ask: op('mset', { entries: new Array(1_000).fill({ key: 'k', value: 'v' }) }),
    status: 200,
    body: { count: 1_000 },
  },
  {
    title: 'mset of 1,001 entries',
    ask: op('mset', { entries: new Array(1_001).fill({ key: 'k', value: 'v' }) }),
    status: 400,
    problem: { code: 'invalid_request', field: 'entries', limit: 1_000 },
  },

  {
    title: 'several deletions',
    before: [put('a', { value: '' }), put('b', { value: '' })],
    ask: op('delete', { keys: ['a', 'b', 'missing', 'a'] }),
    status: 200,
    body: { deleted: 2 },
  },
  ...badKeyLists('delete'),
]

function shown(key: string): string {
  return key.length > 40 ? `${key.slice(0, 20)}… (${key.length})` : key
}
