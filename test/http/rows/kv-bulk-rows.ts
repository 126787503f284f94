import { badKeyLists, badTtls, ENTRY_VERSION, IN_A_MINUTE, kv, op, persistent, put } from './kv-asks.ts'
import { badPages, CURSOR, type Row } from './row.ts'

export const KV_BULK_ROWS: Row[] = [
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
        { key: 'a', ttl_seconds: 60, expires_at: IN_A_MINUTE, version: ENTRY_VERSION },
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
    title: 'a page of 1,000',
    ask: { method: 'GET', path: `${kv}?limit=1000` },
    status: 200,
    body: { entries: [], next_cursor: null },
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
        { key: 'a', value: '1', ttl_seconds: 60, expires_at: IN_A_MINUTE, version: ENTRY_VERSION },
        null,
        { key: 'a', value: '1', ttl_seconds: 60, expires_at: IN_A_MINUTE, version: ENTRY_VERSION },
      ],
    },
  },
  ...badKeyLists('mget'),
  {
    title: 'mget of an empty key',
    ask: op('mget', { keys: ['k', ''] }),
    status: 400,
    problem: { code: 'invalid_key', field: 'keys[1]' },
  },
  {
    title: 'mget of 1,001 keys',
    ask: op('mget', { keys: new Array(1_001).fill('k') }),
    status: 400,
    problem: { code: 'invalid_request', field: 'keys', limit: 1_000 },
  },
  {
    title: 'values that are too large together',
    before: [put('a', { value: 'v'.repeat(1_000_000) })],
    ask: op('mget', { keys: new Array(17).fill('a') }),
    status: 400,
    problem: { code: 'result_too_large', limit: 10_485_760 },
  },

  {
    title: 'several puts',
    ask: op('mset', { entries: [{ key: '.', value: '1' }] }),
    status: 200,
    body: { count: 1, entries: [{ key: '.', created: true, ...persistent }] },
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
        { key: '..', value: '2', ttl_seconds: 60, expires_at: IN_A_MINUTE, version: ENTRY_VERSION },
      ],
    },
  },
  {
    title: 'an mset of which one entry must be new, and is not',
    before: [put('b', { value: 'v' })],
    ask: op('mset', {
      entries: [
        { key: 'a', value: '1', if_version: null },
        { key: 'b', value: '1', if_version: null },
      ],
    }),
    status: 412,
    problem: { code: 'precondition_failed', field: 'entries[1].if_version' },
  },
  {
    title: 'an mset with a version that is a number',
    ask: op('mset', { entries: [{ key: 'a', value: '1', if_version: 5 }] }),
    status: 400,
    problem: { code: 'invalid_request', field: 'entries[0].if_version' },
  },
  {
    title: 'getdel of an entry',
    before: [put('a', { value: '1', ttl_seconds: 60 })],
    ask: op('getdel', { key: 'a' }),
    status: 200,
    body: {
      entry: { key: 'a', value: '1', ttl_seconds: 60, expires_at: IN_A_MINUTE, version: ENTRY_VERSION },
    },
  },
  {
    title: 'getdel of a missing entry',
    ask: op('getdel', { key: 'a' }),
    status: 200,
    body: { entry: null },
  },
  {
    title: 'getdel of an empty key',
    ask: op('getdel', { key: '' }),
    status: 400,
    problem: { code: 'invalid_key', field: 'key' },
  },
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
  ...badTtls('mset', 'entries[0].ttl_seconds', (ttl) => ({
    method: 'POST',
    path: `${kv}/ops/mset`,
    raw: `{"entries":[{"key":"k","value":"v","ttl_seconds":${ttl}}]}`,
  })),
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
