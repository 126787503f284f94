import { expect } from 'vitest'
import type { Ask } from '../../support/http/bench.ts'
import { badPages, COUNT, CURSOR, type Row, TIME, UNKNOWN_ID, UUID, VERSION } from './row.ts'

const path = '/v1/databases'
const now = '2026-11-21T02:02:13.123Z'
const created = { id: UUID, name: null, created_at: now }

const backup: Ask = { method: 'POST', path: `${path}/{cell}/backup` }
const from = (source: unknown, more: object = {}): Ask => ({
  method: 'POST',
  path,
  body: { from: source, ...more },
})

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
        {
          ...created,
          status: 'ok',
          size_bytes: COUNT,
          backed_up_to: null,
          last_stored_at: null,
          last_proven: null,
        },
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
          status: 'ok',
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
    title: 'a cell with the state of another',
    before: [backup],
    ask: from({ cell_id: '{cell}' }),
    status: 201,
    body: created,
    headers: {
      location: expect.stringMatching(/^\/v1\/databases\/[0-9a-f-]{36}$/),
      'idempotent-replayed': null,
    },
  },
  {
    title: 'a cell with a state that another had, and a name',
    before: [backup],
    ask: from({ cell_id: '{cell}', timestamp: '2126-11-21T02:02:13+01:00' }, { name: 'as it was' }),
    status: 201,
    body: { ...created, name: 'as it was' },
  },
  {
    title: 'a cell with the state of a deleted one',
    before: [backup, { method: 'DELETE', path: `${path}/{cell}` }],
    ask: from({ cell_id: '{cell}' }),
    status: 201,
    body: created,
  },
  { title: 'a cell with the state of none', ask: from(null), status: 201, body: created },
  {
    title: 'the same cell with the state of another, for the same Idempotency-Key',
    before: [backup, { ...from({ cell_id: '{cell}' }), headers: { 'idempotency-key': 'branch' } }],
    ask: { ...from({ cell_id: '{cell}' }), headers: { 'idempotency-key': 'branch' } },
    status: 201,
    body: created,
    headers: { 'idempotent-replayed': 'true' },
  },
  {
    title: 'another source for the same Idempotency-Key',
    before: [backup, { ...from({ cell_id: '{cell}' }), headers: { 'idempotency-key': 'sources' } }],
    ask: {
      ...from({ cell_id: '{cell}', timestamp: '2126-11-21T02:02:13Z' }),
      headers: { 'idempotency-key': 'sources' },
    },
    status: 422,
    problem: { code: 'idempotency_key_reused' },
  },
  ...[UNKNOWN_ID, '{stranger}', '{nobody}', '{catalog}', 'x', ''].map(
    (cell_id): Row => ({
      title: `a cell with the state of ${cell_id || 'an empty id'}`,
      ask: from({ cell_id }),
      status: 404,
      problem: { code: 'cell_not_found' },
    }),
  ),
  {
    title: 'a cell with the state of one that nobody has changed or backed up',
    ask: from({ cell_id: '{cell}' }),
    status: 201,
    body: created,
  },
  {
    title: 'a cell with a version of another cell',
    before: [backup],
    ask: from({ cell_id: '{cell}', version: `snapshots/${UNKNOWN_ID}/backup-20261121T020213.123Z` }),
    status: 404,
    problem: { code: 'backup_not_found' },
  },
  {
    title: 'a cell with a version that is none',
    before: [backup],
    ask: from({ cell_id: '{cell}', version: 'latest' }),
    status: 400,
    problem: { code: 'invalid_version', field: 'version' },
  },
  {
    title: 'a cell with a version and a time of another',
    before: [backup],
    ask: from({
      cell_id: '{cell}',
      version: 'snapshots/{cell}/backup-20200101T000000.000Z',
      timestamp: '2126-11-21T02:02:13Z',
    }),
    status: 400,
    problem: { code: 'invalid_request', field: 'timestamp' },
  },
  ...[
    [{ cell_id: '{cell}', versoin: 'x' }, 'from.versoin'],
    [{ cell_id: '{cell}', at: 'x' }, 'from.at'],
    [{ cell_id: '{cell}', timestamp: 'yesterday' }, 'from.timestamp'],
    [{ cell_id: 5 }, 'from.cell_id'],
    [{}, 'from.cell_id'],
    ['{cell}', 'from'],
  ].map(
    ([source, field]): Row => ({
      title: `a cell with the state of ${JSON.stringify(source)}`,
      ask: from(source),
      status: 400,
      problem: { code: 'invalid_request', field },
    }),
  ),
  {
    title: 'a cell with the state of another, with a name that is taken',
    before: [backup, { method: 'POST', path, body: { name: 'in use' } }],
    ask: from({ cell_id: '{cell}' }, { name: 'in use' }),
    status: 409,
    problem: { code: 'name_taken', field: 'name' },
  },
  {
    title: 'a cell with the state of another, without an object store',
    bench: { store: { objectStore: undefined } },
    ask: from({ cell_id: '{cell}' }),
    status: 501,
    problem: { code: 'object_store_not_configured' },
  },
  {
    title: 'a cell with the state of another, while the object store is down',
    bench: {},
    before: (bench) => {
      bench.objectStore.failure = 'object_store_unavailable'
    },
    ask: from({ cell_id: '{cell}' }),
    status: 503,
    problem: { code: 'object_store_unavailable' },
    headers: { 'retry-after': '5' },
  },
  {
    title: 'the deleted cells',
    bench: {},
    before: [{ method: 'DELETE', path: `${path}/{cell}` }],
    ask: { method: 'GET', path: `${path}?deleted=true` },
    status: 200,
    body: {
      databases: [
        {
          ...created,
          size_bytes: 0,
          backed_up_to: null,
          last_stored_at: null,
          last_proven: null,
          deleted_at: TIME,
        },
      ],
      next_cursor: null,
    },
  },
  {
    title: 'the deleted cells of another account',
    bench: {},
    before: (bench) => bench.store.deleteCell(bench.fill('{stranger}')),
    ask: { method: 'GET', path: `${path}?deleted` },
    status: 200,
    body: { databases: [], next_cursor: null },
  },
  {
    title: 'the cells that are not deleted',
    bench: {},
    before: [{ method: 'DELETE', path: `${path}/{cell}` }],
    ask: { method: 'GET', path: `${path}?deleted=false` },
    status: 200,
    body: { databases: [], next_cursor: null },
  },
  {
    title: 'cells that may be deleted',
    ask: { method: 'GET', path: `${path}?deleted=maybe` },
    status: 400,
    problem: { code: 'invalid_request', field: 'deleted' },
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
    title: 'a deletion with a field that deletions do not have',
    ask: { method: 'DELETE', path: `${path}/{cell}`, body: { dry_run: true } },
    status: 400,
    problem: { code: 'invalid_request', field: 'dry_run' },
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
