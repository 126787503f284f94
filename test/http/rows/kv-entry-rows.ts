import { expect } from 'vitest'
import { badTtls, ENTRY_VERSION, get, IN_A_MINUTE, kv, op, persistent, put } from './kv-asks.ts'
import type { Row } from './row.ts'

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
  ['that is empty', '', {}],
  ['of 513 characters and 1,026 bytes', '%C3%A9'.repeat(513), { limit: 1_024 }],
  ['with a NUL', 'a%00b', {}],
  ['that is not UTF-8', '%ff', {}],
  ['with half an escape', 'a%2', {}],
  ['that is an encoded lone surrogate', '%ED%A0%80', {}],
]

const ETAG = expect.stringMatching(/^"[1-9]\d*"$/)

/** Conditions that cannot be judged: nothing may happen as if there were none. */
const BAD_CONDITIONS: [headers: Record<string, string>, field: string][] = [
  [{ 'if-match': '123' }, 'If-Match'],
  [{ 'if-match': 'W/"123"' }, 'If-Match'],
  [{ 'if-match': '"1", "2"' }, 'If-Match'],
  [{ 'if-match': '"*"' }, 'If-Match'],
  [{ 'if-none-match': '"123"' }, 'If-None-Match'],
  [{ 'if-none-match': '*', 'if-match': '"1"' }, 'If-None-Match'],
]

export const KV_ENTRY_ROWS: Row[] = [
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
    body: { key: 'k', created: true, ttl_seconds: 60, expires_at: IN_A_MINUTE, version: ENTRY_VERSION },
  },
  {
    title: 'a put that keeps the TTL',
    before: [put('k', { value: 'v', ttl_seconds: 60 })],
    ask: put('k', { value: 'w', keep_ttl: true }),
    status: 200,
    body: { key: 'k', created: false, ttl_seconds: 60, expires_at: IN_A_MINUTE, version: ENTRY_VERSION },
  },
  {
    title: 'a put of an entry that must be new, and is',
    ask: { ...put('k', { value: 'v' }), headers: { 'if-none-match': '*' } },
    status: 200,
    body: { key: 'k', created: true, ...persistent },
    headers: { etag: ETAG },
  },
  {
    title: 'a put of an entry that must be new, and is not',
    before: [put('k', { value: 'v' })],
    ask: { ...put('k', { value: 'w' }), headers: { 'if-none-match': '*' } },
    status: 412,
    problem: { code: 'precondition_failed' },
  },
  {
    title: 'a put of an entry that must be there, and is not',
    ask: { ...put('k', { value: 'w' }), headers: { 'if-match': '*' } },
    status: 412,
    problem: { code: 'precondition_failed' },
  },
  {
    title: 'a put of an entry that must have another version',
    before: [put('k', { value: 'v' })],
    ask: { ...put('k', { value: 'w' }), headers: { 'if-match': '"1"' } },
    status: 412,
    problem: { code: 'precondition_failed' },
  },
  {
    title: 'the deletion of an entry that must have another version',
    before: [put('k', { value: 'v' })],
    ask: { method: 'DELETE', path: `${kv}/k`, headers: { 'if-match': '"none of ours"' } },
    status: 412,
    problem: { code: 'precondition_failed' },
  },
  ...BAD_CONDITIONS.map(
    ([headers, field]): Row => ({
      title: `a put with ${JSON.stringify(headers)}`,
      ask: { ...put('k', { value: 'v' }), headers },
      status: 400,
      problem: { code: 'invalid_request', field },
    }),
  ),
  {
    title: 'a deletion with a condition in its body, where none is judged',
    before: [put('k', { value: 'v' })],
    ask: { method: 'DELETE', path: `${kv}/k`, body: { if_version: '1' } },
    status: 400,
    problem: { code: 'invalid_request', field: 'if_version' },
  },
  {
    title: 'a deletion with a body without fields',
    before: [put('k', { value: 'v' })],
    ask: { method: 'DELETE', path: `${kv}/k`, body: {} },
    status: 200,
    body: { key: 'k', deleted: true },
  },
  {
    title: 'a deletion of an entry that must not be there',
    ask: { method: 'DELETE', path: `${kv}/k`, headers: { 'if-none-match': '*' } },
    status: 400,
    problem: { code: 'invalid_request', field: 'If-None-Match' },
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
  ...[5, null, { a: 1 }].map(
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

  ...PATH_KEYS.map(
    ([sent, key]): Row => ({
      title: `the key ${sent.length > 40 ? `${sent.slice(0, 20)}… (${sent.length})` : sent}`,
      before: [op('mset', { entries: [{ key, value: 'v' }] })],
      ask: get(sent),
      status: 200,
      body: { key, value: 'v', ...persistent },
    }),
  ),
  {
    title: 'a put at an escaped key',
    ask: put('a%2F%C3%A9', { value: 'v' }),
    status: 200,
    body: { key: 'a/é', created: true, ...persistent },
  },
  {
    title: 'the deletion of an escaped key',
    before: [op('mset', { entries: [{ key: 'a/é', value: 'v' }] })],
    ask: { method: 'DELETE', path: `${kv}/a%2F%C3%A9` },
    status: 200,
    body: { key: 'a/é', deleted: true },
  },
  ...BAD_PATH_KEYS.map(
    ([what, sent, members]): Row => ({
      title: `a key ${what}`,
      ask: get(sent),
      status: 400,
      problem: { code: 'invalid_key', field: 'key', ...members },
    }),
  ),
  ...[put('%ff', { value: 'v' }), { method: 'DELETE', path: `${kv}/%ff` }].map(
    (ask): Row => ({
      title: 'a key that is not UTF-8',
      ask,
      status: 400,
      problem: { code: 'invalid_key', field: 'key' },
    }),
  ),
  { title: 'a key with a bare slash', ask: get('a/b'), status: 404, problem: { code: 'not_found' } },

  {
    title: 'an entry',
    before: [put('k', { value: '{"not":"parsed"}', ttl_seconds: 60 })],
    ask: get('k'),
    status: 200,
    body: {
      key: 'k',
      value: '{"not":"parsed"}',
      ttl_seconds: 60,
      expires_at: IN_A_MINUTE,
      version: ENTRY_VERSION,
    },
  },
  { title: 'a missing entry', ask: get('missing'), status: 404, problem: { code: 'key_not_found' } },
  {
    title: 'the deletion of a missing entry',
    ask: { method: 'DELETE', path: `${kv}/missing` },
    status: 200,
    body: { key: 'missing', deleted: false },
  },
]
