import { expect } from 'vitest'
import { badKeyLists, badTtls, IN_A_MINUTE, kv, op, persistent, put } from './kv-asks.ts'
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
