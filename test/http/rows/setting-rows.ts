import { expect } from 'vitest'
import type { HandlerOptions } from '../../../src/http/handler-options.ts'
import type { StoreOptions } from '../../../src/store/settings/store-options.ts'
import type { Ask } from '../../support/http/bench.ts'
import { persistent } from './kv-asks.ts'
import { CURSOR, type Row } from './row.ts'

const cell = '/v1/databases/{cell}'
const sql = (text: string, params: unknown[] = []): Ask => ({
  method: 'POST',
  path: `${cell}/sql`,
  body: { sql: text, params },
})
const put = (key: string, body: object): Ask => ({ method: 'PUT', path: `${cell}/kv/${key}`, body })

/** Limits of the handler, and what they make of a request that the defaults would let through. */
const HANDLER: [HandlerOptions['limits'], Ask, number, Row['problem']][] = [
  [{ bodyBytesMax: 20 }, put('k', { value: 'twenty-one bytes' }), 413, { code: 'body_too_large', limit: 20 }],
  [
    { result: { rowsMax: 2, bytesMax: 1_000 } },
    sql('VALUES (1), (2), (3)'),
    400,
    { code: 'result_too_large', limit: 2 },
  ],
  [
    { result: { rowsMax: 9, bytesMax: 99 } },
    sql('SELECT zeroblob(100)'),
    400,
    { code: 'result_too_large', limit: 99 },
  ],
]

/** Limits of the store, likewise. */
const STORE: [StoreOptions['limits'], Ask, number, Row['problem']][] = [
  [{ keyBytesMax: 3 }, put('four', { value: 'v' }), 400, { code: 'invalid_key', field: 'key', limit: 3 }],
  [
    { valueBytesMax: 3 },
    put('k', { value: 'four' }),
    413,
    { code: 'value_too_large', field: 'value', limit: 3 },
  ],
  [
    { ttlSecondsMax: 9 },
    put('k', { value: 'v', ttl_seconds: 10 }),
    400,
    { code: 'invalid_ttl', field: 'ttl_seconds', limit: 9 },
  ],
  [
    { kvKeysMax: 1 },
    { method: 'POST', path: `${cell}/kv/ops/ttl`, body: { keys: ['a', 'b'] } },
    400,
    { code: 'invalid_request', field: 'keys', limit: 1 },
  ],
  [
    { pageMax: 100 },
    { method: 'GET', path: `${cell}/kv?limit=101` },
    400,
    { code: 'invalid_request', field: 'limit', limit: 100 },
  ],
  [{ sqlBytesMax: 8 }, sql('SELECT 10'), 413, { code: 'sql_too_long', limit: 8 }],
  [
    { paramsMax: 1 },
    sql('SELECT ?, ?', [1, 2]),
    400,
    { code: 'invalid_parameter', field: 'params', limit: 1 },
  ],
  [
    { batchOperationsMax: 1 },
    {
      method: 'POST',
      path: `${cell}/batch`,
      body: { operations: [{ sql: 'SELECT 1' }, { sql: 'SELECT 1' }] },
    },
    400,
    { code: 'invalid_request', field: 'operations', limit: 1 },
  ],
]

/** Every limit is a setting, and named in the error that it causes. */
export const SETTING_ROWS: Row[] = [
  ...HANDLER.map(
    ([limits, ask, status, problem]): Row => ({
      title: `the handler’s limits ${JSON.stringify(limits)}`,
      bench: { handler: { limits } },
      ask,
      status,
      ...(problem === undefined ? {} : { problem }),
    }),
  ),
  ...STORE.map(
    ([limits, ask, status, problem]): Row => ({
      title: `the store’s limits ${JSON.stringify(limits)}`,
      bench: { store: { limits } },
      ask,
      status,
      ...(problem === undefined ? {} : { problem }),
    }),
  ),
  ...(['/v1/databases', '/v1/api-keys'] as const).map(
    (path): Row => ({
      title: `a quota that ${path} has used up`,
      bench: { store: { quotas: { cellsMax: 1, apiKeysMax: 1 } } },
      ask: { method: 'POST', path, body: {} },
      status: 403,
      problem: { code: 'quota_exceeded', limit: 1, usage: 1 },
    }),
  ),
  {
    title: 'a default page of one',
    bench: { handler: { limits: { pageDefault: 1 } } },
    before: [put('a', { value: '' }), put('b', { value: '' })],
    ask: { method: 'GET', path: `${cell}/kv` },
    status: 200,
    body: { entries: [{ key: 'a', ...persistent }], next_cursor: CURSOR },
  },
  {
    title: 'a default page that is larger than pages may be',
    bench: { store: { limits: { pageMax: 1 } } },
    before: [put('a', { value: '' }), put('b', { value: '' })],
    ask: { method: 'GET', path: `${cell}/kv` },
    status: 200,
    body: { entries: [{ key: 'a', ...persistent }], next_cursor: CURSOR },
  },
  {
    title: 'SQL of a tenant that is trusted',
    bench: { handler: { sqlPolicy: 'trusted' } },
    ask: sql('VACUUM'),
    status: 200,
    body: expect.objectContaining({ rows: [] }),
  },
  {
    title: 'a change of the durability remote while the object store fails',
    bench: { store: { durability: 'remote', backups: { remoteWaitMs: 100 } } },
    before: ({ objectStore }) => {
      objectStore.failure = 'object_store_unavailable'
    },
    ask: put('k', { value: 'v' }),
    status: 503,
    problem: { code: 'not_replicated', limit: 100 },
  },
  {
    title: 'a change that was not replicated',
    bench: { store: { durability: 'remote', backups: { remoteWaitMs: 100 } } },
    before: async (bench) => {
      bench.objectStore.failure = 'object_store_unavailable'
      await bench.send(put('k', { value: 'v' }))
    },
    ask: { method: 'GET', path: `${cell}/kv/k` },
    status: 200,
    body: { key: 'k', value: 'v', ...persistent },
  },
]
