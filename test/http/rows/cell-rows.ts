import { expect } from 'vitest'
import { badPages, COUNT, CURSOR, type Row, TIME, UUID, VERSION } from './row.ts'

const path = '/v1/databases'
const now = '2026-11-21T02:02:13.123Z'
const created = { id: UUID, name: null, created_at: now }

export const CELL_ROWS: Row[] = [
  {
    title: 'a cell, of {}',
    ask: { method: 'POST', path, body: {} },
    status: 201,
    body: created,
    headers: { location: expect.stringMatching(/^\/v1\/databases\/[0-9a-f-]{36}$/) },
  },
  {
    title: 'a cell, of an empty body without a type',
    ask: { method: 'POST', path },
    status: 201,
    body: created,
  },
  {
    title: 'a cell with a name',
    ask: { method: 'POST', path, body: { name: 'acme' } },
    status: 201,
    body: { ...created, name: 'acme' },
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
  {
    title: 'a name that is no string',
    ask: { method: 'POST', path, body: { name: 7 } },
    status: 400,
    problem: { code: 'invalid_request', field: 'name' },
  },
  ...['k'.repeat(255), '"quoted"', '~'].map(
    (key): Row => ({
      title: `an Idempotency-Key of ${key.length} characters`,
      ask: { method: 'POST', path, body: {}, headers: { 'idempotency-key': key } },
      status: 201,
      body: created,
      headers: { 'idempotent-replayed': null },
    }),
  ),
  ...['k'.repeat(256), '""', 'caf\u00e9'].map(
    (key): Row => ({
      title: `an Idempotency-Key that is ${key.length > 9 ? 'too long' : key}`,
      ask: { method: 'POST', path, body: {}, headers: { 'idempotency-key': key } },
      status: 400,
      problem: { code: 'invalid_request', field: 'Idempotency-Key', limit: 255 },
    }),
  ),
  {
    title: 'the same Idempotency-Key with another body',
    before: [{ method: 'POST', path, body: { name: 'a' }, headers: { 'idempotency-key': 'once' } }],
    ask: { method: 'POST', path, body: { name: 'b' }, headers: { 'idempotency-key': 'once' } },
    status: 422,
    problem: { code: 'idempotency_key_reused' },
  },
  {
    title: 'a body nested too deeply to be told from another',
    ask: {
      method: 'POST',
      path,
      raw: `{"x":${'['.repeat(70)}${']'.repeat(70)}}`,
      headers: { 'idempotency-key': 'deep' },
    },
    status: 400,
    problem: { code: 'invalid_request' },
  },
  {
    title: 'a page of cells',
    before: [{ method: 'POST', path }],
    ask: { method: 'GET', path: `${path}?limit=1` },
    status: 200,
    body: {
      databases: [
        { ...created, size_bytes: COUNT, backed_up_to: null, last_stored_at: null, last_proven: null },
      ],
      next_cursor: CURSOR,
    },
  },
  {
    title: 'the cell of a name',
    before: [
      { method: 'POST', path, body: { name: 'found' } },
      { method: 'POST', path, body: { name: 'other' } },
    ],
    ask: { method: 'GET', path: `${path}?name=found` },
    status: 200,
    body: {
      databases: [
        {
          ...created,
          name: 'found',
          size_bytes: COUNT,
          backed_up_to: null,
          last_stored_at: null,
          last_proven: null,
        },
      ],
      next_cursor: null,
    },
  },
  {
    title: 'the cell of a name that none has',
    ask: { method: 'GET', path: `${path}?name=none` },
    status: 200,
    body: { databases: [], next_cursor: null },
  },
  {
    title: 'a name that is taken',
    before: [{ method: 'POST', path, body: { name: 'taken' } }],
    ask: { method: 'POST', path, body: { name: 'taken' } },
    status: 409,
    problem: { code: 'name_taken', field: 'name' },
  },
  {
    title: 'a name in the query',
    ask: { method: 'POST', path: `${path}?name=asked`, body: {} },
    status: 201,
    body: { ...created, name: 'asked' },
  },
  {
    title: 'two names',
    ask: { method: 'POST', path: `${path}?name=one`, body: { name: 'two' } },
    status: 400,
    problem: { code: 'invalid_request', field: 'name' },
  },
  {
    title: 'another name',
    ask: { method: 'PATCH', path: `${path}/{cell}`, body: { name: 'renamed' } },
    status: 200,
    body: { ...created, name: 'renamed' },
  },
  {
    title: 'no name any more',
    before: [{ method: 'PATCH', path: `${path}/{cell}`, body: { name: 'for now' } }],
    ask: { method: 'PATCH', path: `${path}/{cell}`, body: { name: null } },
    status: 200,
    body: created,
  },
  {
    title: 'a name of another cell',
    before: [{ method: 'POST', path, body: { name: 'held' } }],
    ask: { method: 'PATCH', path: `${path}/{cell}`, body: { name: 'held' } },
    status: 409,
    problem: { code: 'name_taken', field: 'name' },
  },
  {
    title: 'a rename without a name',
    ask: { method: 'PATCH', path: `${path}/{cell}`, body: {} },
    status: 400,
    problem: { code: 'invalid_request', field: 'name' },
  },
  {
    title: 'a rename with a field that is not known',
    ask: { method: 'PATCH', path: `${path}/{cell}`, body: { nam: 'x' } },
    status: 400,
    problem: { code: 'invalid_request', field: 'nam' },
  },
  ...badPages(path),
  {
    title: 'a cell that has no backup',
    ask: { method: 'GET', path: `${path}/{cell}` },
    status: 200,
    body: {
      ...created,
      status: 'ok',
      size_bytes: COUNT,
      backed_up_to: null,
      last_stored_at: null,
      last_proven: null,
      last_backup: null,
    },
  },
  {
    title: 'a cell that has one',
    before: [{ method: 'POST', path: `${path}/{cell}/backup` }],
    ask: { method: 'GET', path: `${path}/{cell}` },
    status: 200,
    body: {
      ...created,
      status: 'ok',
      size_bytes: COUNT,
      backed_up_to: TIME,
      last_stored_at: TIME,
      last_proven: null,
      last_backup: { version: VERSION, kind: 'snapshot', created_at: TIME },
    },
  },
  {
    title: 'the deletion of a cell',
    ask: { method: 'DELETE', path: `${path}/{cell}` },
    status: 200,
    body: { id: UUID, deleted: true },
  },
  {
    title: 'a second deletion',
    before: [{ method: 'DELETE', path: `${path}/{cell}` }],
    ask: { method: 'DELETE', path: `${path}/{cell}` },
    status: 404,
    problem: { code: 'cell_not_found' },
  },
]
