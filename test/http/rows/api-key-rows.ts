import { expect } from 'vitest'
import { KEY, type Row, TIME, UNKNOWN_ID, UUID } from './row.ts'

const path = '/v1/api-keys'
const HINT = expect.stringMatching(/^cell_sk_[0-9A-Za-z]{4}$/)
const NOW = '2026-11-21T02:02:13.123Z'
const full = { access: 'write', cell_ids: null, surface: 'all', expires_at: null }
const created = { id: UUID, key: KEY, name: null, hint: HINT, created_at: NOW, ...full }
const listed = { id: UUID, name: null, hint: HINT, created_at: TIME, last_used_at: TIME, ...full }
const LATER = '2026-12-01T00:00:00.000Z'

export const API_KEY_ROWS: Row[] = [
  { title: 'a key, of {}', ask: { method: 'POST', path, body: {} }, status: 201, body: created },
  {
    title: 'a key, of an empty body without a type',
    ask: { method: 'POST', path },
    status: 201,
    body: created,
  },
  {
    title: 'a key with a name',
    ask: { method: 'POST', path, body: { name: 'ci – läuft' } },
    status: 201,
    body: { ...created, name: 'ci – läuft' },
  },
  {
    title: 'a key whose name is null',
    ask: { method: 'POST', path, body: { name: null } },
    status: 201,
    body: created,
  },
  {
    title: 'a key beside unknown fields',
    ask: { method: 'POST', path, body: { key: 'mine', id: 'x', scopes: ['all'] } },
    status: 201,
    body: created,
  },
  {
    title: 'a key that may only read entries of one cell, for some days',
    ask: {
      method: 'POST',
      path,
      body: { access: 'read', surface: 'kv', cell_ids: ['{cell}'], expires_at: '2026-12-01T01:00:00+01:00' },
    },
    status: 201,
    body: { ...created, access: 'read', surface: 'kv', cell_ids: [UUID], expires_at: LATER },
  },
  {
    title: 'a key whose scope is null where it can be',
    ask: { method: 'POST', path, body: { cell_ids: null, expires_at: null } },
    status: 201,
    body: created,
  },
  ...[
    [{ field: 'access' }, { access: 'admin' }],
    [{ field: 'access' }, { access: null }],
    [{ field: 'surface' }, { surface: 'sql' }],
    [{ field: 'cell_ids', limit: 100 }, { cell_ids: [] }],
    [{ field: 'cell_ids' }, { cell_ids: '{cell}' }],
    [{ field: 'cell_ids[0]' }, { cell_ids: [5] }],
    [{ field: 'expires_at' }, { expires_at: 5 }],
    [{ field: 'expires_at' }, { expires_at: 'tomorrow' }],
    [{ field: 'expires_at' }, { expires_at: '2026-12-01' }],
    [{ field: 'expires_at' }, { expires_at: NOW }],
  ].map(
    ([members, body]): Row => ({
      title: `a key with ${JSON.stringify(body)}`,
      ask: { method: 'POST', path, body },
      status: 400,
      problem: { code: 'invalid_request', ...(members as object) },
    }),
  ),
  ...['{stranger}', '{deleted}', '{nobody}', UNKNOWN_ID, 'x'].map(
    (id): Row => ({
      title: `a key for the cell ${id}`,
      ask: { method: 'POST', path, body: { cell_ids: ['{cell}', id] } },
      status: 404,
      problem: { code: 'cell_not_found' },
    }),
  ),
  {
    title: 'a key with more access than the key that asks',
    ask: { method: 'POST', path, body: { access: 'owner' } },
    status: 403,
    problem: { code: 'forbidden' },
  },
  {
    title: 'a key, asked with one that may only read',
    ask: { method: 'POST', path, key: '{readkey}', body: {} },
    status: 403,
    problem: { code: 'forbidden' },
  },
  {
    title: 'a name of 255 characters',
    ask: { method: 'POST', path, body: { name: 'n'.repeat(255) } },
    status: 201,
    body: { ...created, name: 'n'.repeat(255) },
  },
  {
    title: 'a name of 255 characters that UTF-16 writes with two units each',
    ask: { method: 'POST', path, body: { name: '😀'.repeat(255) } },
    status: 201,
    body: { ...created, name: '😀'.repeat(255) },
  },
  {
    title: 'a name of 256 characters',
    ask: { method: 'POST', path, body: { name: 'n'.repeat(256) } },
    status: 400,
    problem: { code: 'invalid_request', field: 'name', limit: 255 },
  },
  ...[5, true, ['x'], {}].map(
    (name): Row => ({
      title: `a name that is ${JSON.stringify(name)}`,
      ask: { method: 'POST', path, body: { name } },
      status: 400,
      problem: { code: 'invalid_request', field: 'name' },
    }),
  ),
  {
    title: 'a name with a lone surrogate',
    ask: { method: 'POST', path, raw: '{"name":"a\\ud800"}' },
    status: 400,
    problem: { code: 'invalid_request', field: 'name' },
  },
  {
    title: 'an Idempotency-Key on the making of a key',
    ask: { method: 'POST', path, body: {}, headers: { 'idempotency-key': 'x' } },
    status: 400,
    problem: { code: 'idempotency_not_supported', field: 'Idempotency-Key' },
  },
  {
    title: 'the keys: a bare array, newest first, without the keys themselves',
    before: [{ method: 'POST', path, body: { name: 'newest' } }],
    ask: { method: 'GET', path },
    status: 200,
    body: expect.toSatisfy((keys: unknown[]) => {
      expect(keys[0]).toEqual({ ...listed, name: 'newest', last_used_at: null })
      expect(keys.at(-1)).toEqual(listed)
      return true
    }),
  },
  {
    title: 'the keys of an account: its own alone',
    ask: { method: 'GET', path },
    status: 200,
    body: expect.not.arrayContaining([expect.objectContaining({ name: 'of the stranger' })]),
    before: ({ store, strangerId }) => void store.apiKeys.create(strangerId, { name: 'of the stranger' }),
  },
  ...['{strangerkey}', UNKNOWN_ID, 'x', '%00', '..%2f..', 'cell_sk_'].map(
    (id): Row => ({
      title: `the revocation of ${id}`,
      ask: { method: 'DELETE', path: `${path}/${id}` },
      status: 404,
      problem: { code: 'api_key_not_found' },
    }),
  ),
  {
    title: 'the rotation of a key, with a day of grace',
    ask: { method: 'POST', path: `${path}/{keyid}/rotate` },
    status: 201,
    body: { ...created, name: 'rotated', replaces: { id: UUID, expires_at: '2026-11-22T02:02:13.123Z' } },
  },
  {
    title: 'the rotation of a key at once, with an expiry for the new one',
    ask: { method: 'POST', path: `${path}/{keyid}/rotate`, body: { grace_ms: 0, expires_at: LATER } },
    before: (bench) => bench.forget('keyid'),
    status: 201,
    body: { ...created, name: 'rotated', expires_at: LATER, replaces: { id: UUID, expires_at: NOW } },
  },
  ...[
    [{ field: 'grace_ms', limit: 2_592_000_000 }, { grace_ms: -1 }],
    [{ field: 'grace_ms' }, { grace_ms: 1.5 }],
    [{ field: 'grace_ms', limit: 2_592_000_000 }, { grace_ms: 30 * 86_400_000 + 1 }],
    [{ field: 'expires_at' }, { expires_at: '2020-01-01T00:00:00Z' }],
    [{ field: 'grace' }, { grace: 5 }],
  ].map(
    ([members, body]): Row => ({
      title: `a rotation with ${JSON.stringify(body)}`,
      ask: { method: 'POST', path: `${path}/{keyid}/rotate`, body },
      status: 400,
      problem: { code: 'invalid_request', ...(members as object) },
    }),
  ),
  ...['{strangerkey}', UNKNOWN_ID, 'x'].map(
    (id): Row => ({
      title: `the rotation of ${id}`,
      ask: { method: 'POST', path: `${path}/${id}/rotate`, body: {} },
      status: 404,
      problem: { code: 'api_key_not_found' },
    }),
  ),
  {
    title: 'an Idempotency-Key on a rotation',
    ask: { method: 'POST', path: `${path}/{keyid}/rotate`, headers: { 'idempotency-key': 'x' } },
    status: 400,
    problem: { code: 'idempotency_not_supported', field: 'Idempotency-Key' },
  },
]
