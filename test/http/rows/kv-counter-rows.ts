import { badKeyLists, badTtls, ENTRY_VERSION, IN_A_MINUTE, kv, op, persistent, put } from './kv-asks.ts'
import type { Row } from './row.ts'

export const KV_COUNTER_ROWS: Row[] = [
  {
    title: 'incr of a missing key',
    ask: op('incr', { key: 'n' }),
    status: 200,
    body: { key: 'n', value: 1, ...persistent },
  },
  {
    title: 'incr with a TTL for a new key',
    ask: op('incr', { key: 'n', ttl_seconds: 60 }),
    status: 200,
    body: { key: 'n', value: 1, version: ENTRY_VERSION, ttl_seconds: 60, expires_at: IN_A_MINUTE },
  },
  {
    title: 'a delta beyond 2^53, exactly',
    ask: { method: 'POST', path: `${kv}/ops/incr`, raw: '{"key":"n","delta":9007199254740993}' },
    status: 200,
    body: { key: 'n', value: '9007199254740993', ...persistent },
  },
  {
    title: 'a delta in the typed form',
    ask: op('incr', { key: 'n', delta: { type: 'integer', value: '9223372036854775807' } }),
    status: 200,
    body: { key: 'n', value: '9223372036854775807', ...persistent },
  },
  {
    title: 'an overflow',
    before: [op('mset', { entries: [{ key: 'n', value: '9223372036854775807' }] })],
    ask: op('incr', { key: 'n' }),
    status: 400,
    problem: { code: 'integer_overflow', field: 'delta' },
  },
  {
    title: 'incr of a value that is no integer',
    before: [put('n', { value: '1.5' })],
    ask: op('incr', { key: 'n' }),
    status: 400,
    problem: { code: 'not_an_integer', field: 'key' },
  },
  ...['1.5', '"1"', '9223372036854775808', '{"type":"integer","value":"x"}'].map(
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
  ...badKeyLists('ttl'),

  {
    title: 'expire with a TTL',
    before: [put('k', { value: 'v' })],
    ask: op('expire', { key: 'k', ttl_seconds: 60 }),
    status: 200,
    body: { key: 'k', updated: true, version: ENTRY_VERSION, ttl_seconds: 60 },
  },
  {
    title: 'expire without a TTL, which removes it',
    before: [put('k', { value: 'v', ttl_seconds: 60 })],
    ask: op('expire', { key: 'k' }),
    status: 200,
    body: { key: 'k', updated: true, version: ENTRY_VERSION, ttl_seconds: -1 },
  },
  {
    title: 'expire with a TTL of null, which removes it',
    before: [put('k', { value: 'v', ttl_seconds: 60 })],
    ask: op('expire', { key: 'k', ttl_seconds: null }),
    status: 200,
    body: { key: 'k', updated: true, version: ENTRY_VERSION, ttl_seconds: -1 },
  },
  {
    title: 'expire of a missing key',
    ask: op('expire', { key: 'k', ttl_seconds: 60 }),
    status: 200,
    body: { key: 'k', updated: false, version: null, ttl_seconds: null },
  },
  {
    title: 'expire without a key',
    ask: op('expire', { ttl_seconds: 1 }),
    status: 400,
    problem: { code: 'invalid_request', field: 'key' },
  },
  ...badTtls('expire', 'ttl_seconds', (ttl) => ({
    method: 'POST',
    path: `${kv}/ops/expire`,
    raw: `{"key":"k","ttl_seconds":${ttl}}`,
  })),
]
