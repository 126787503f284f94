import { expect } from 'vitest'
import { KEY, type Row, TIME, UNKNOWN_ID, UUID } from './row.ts'

const path = '/v1/api-keys'
const HINT = expect.stringMatching(/^cell_sk_[0-9A-Za-z]{4}$/)
const created = { id: UUID, key: KEY, name: null, hint: HINT, created_at: '2026-11-21T02:02:13.123Z' }
const listed = { id: UUID, name: null, hint: HINT, created_at: TIME, last_used_at: TIME }

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
    title: 'a name of 255 characters',
    ask: { method: 'POST', path, body: { name: 'n'.repeat(255) } },
    status: 201,
    body: { ...created, name: 'n'.repeat(255) },
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
]
