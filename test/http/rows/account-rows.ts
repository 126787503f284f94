import { expect } from 'vitest'
import { badPages, CURSOR, KEY, type Row, TIME, UNKNOWN_ID, UUID } from './row.ts'

/** They are asked with an owner's key: see Bench.send. */
const path = '/v1/accounts'
const quotas = { cells_max: null, api_keys_max: null, bytes_max: null, requests_per_second: null }
const made = { id: UUID, name: null, created_at: TIME, suspended_at: null, quotas }

export const ACCOUNT_ROWS: Row[] = [
  { title: 'an account', ask: { method: 'POST', path }, status: 201, body: made },
  {
    title: 'an account with a name',
    ask: { method: 'POST', path, body: { name: 'Müller & Co' } },
    status: 201,
    body: { ...made, name: 'Müller & Co' },
  },
  {
    title: 'an account with an unknown field',
    ask: { method: 'POST', path, body: { nmae: 'x' } },
    status: 400,
    problem: { code: 'invalid_request', field: 'nmae' },
  },
  {
    title: 'the accounts, oldest first',
    ask: { method: 'GET', path: `${path}?limit=1` },
    status: 200,
    body: {
      accounts: [{ ...made, name: expect.toBeOneOf([null, expect.any(String)]) }],
      next_cursor: CURSOR,
    },
  },
  ...badPages(path),
  { title: 'an account', ask: { method: 'GET', path: `${path}/{account}` }, status: 200, body: made },
  {
    title: 'a suspension',
    before: (bench) => bench.forget('account'),
    ask: { method: 'POST', path: `${path}/{account}/suspend` },
    status: 200,
    body: { ...made, suspended_at: TIME },
  },
  {
    title: 'the end of a suspension',
    before: [{ method: 'POST', path: `${path}/{account}/suspend` }],
    ask: { method: 'POST', path: `${path}/{account}/resume` },
    status: 200,
    body: made,
  },
  {
    title: 'quotas: those that are left out are the store’s',
    ask: {
      method: 'PUT',
      path: `${path}/{account}/quotas`,
      body: { cells_max: 3, bytes_max: 1_048_576, requests_per_second: null },
    },
    status: 200,
    body: { ...made, quotas: { ...quotas, cells_max: 3, bytes_max: 1_048_576 } },
  },
  {
    title: 'no quotas',
    before: [{ method: 'PUT', path: `${path}/{account}/quotas`, body: { cells_max: 3 } }],
    ask: { method: 'PUT', path: `${path}/{account}/quotas`, body: {} },
    status: 200,
    body: made,
  },
  ...[0, -1, 1.5, '5', true].map(
    (cells_max): Row => ({
      title: `a quota of ${JSON.stringify(cells_max)}`,
      ask: { method: 'PUT', path: `${path}/{account}/quotas`, body: { cells_max } },
      status: 400,
      problem: { code: 'invalid_request', field: 'cells_max' },
    }),
  ),
  {
    title: 'an unknown quota',
    ask: { method: 'PUT', path: `${path}/{account}/quotas`, body: { cells: 5 } },
    status: 400,
    problem: { code: 'invalid_request', field: 'cells' },
  },
  {
    title: 'a key of an account',
    ask: {
      method: 'POST',
      path: `${path}/{account}/api-keys`,
      body: { name: 'first', access: 'read' },
    },
    status: 201,
    body: {
      id: UUID,
      key: KEY,
      name: 'first',
      hint: expect.stringMatching(/^cell_sk_/),
      created_at: TIME,
      access: 'read',
      cell_ids: null,
      surface: 'all',
      expires_at: null,
    },
  },
  {
    title: 'a key of an account with an unknown field: this row is not fixed',
    ask: { method: 'POST', path: `${path}/{account}/api-keys`, body: { acess: 'read' } },
    status: 400,
    problem: { code: 'invalid_request', field: 'acess' },
  },
  {
    title: 'a key of an account for the cell of another one',
    ask: { method: 'POST', path: `${path}/{account}/api-keys`, body: { cell_ids: ['{cell}'] } },
    status: 404,
    problem: { code: 'cell_not_found' },
  },
  ...[UNKNOWN_ID, 'x', '%00'].flatMap((id) =>
    [
      { method: 'GET', path: `${path}/${id}` },
      { method: 'POST', path: `${path}/${id}/suspend` },
      { method: 'POST', path: `${path}/${id}/resume` },
      { method: 'PUT', path: `${path}/${id}/quotas`, body: {} },
      { method: 'POST', path: `${path}/${id}/api-keys`, body: {} },
    ].map(
      (ask): Row => ({
        title: `the account ${id}, ${ask.path.slice(path.length + id.length + 1) || 'itself'}`,
        ask,
        status: 404,
        problem: { code: 'account_not_found' },
      }),
    ),
  ),
  ...['GET', 'POST'].map(
    (method): Row => ({
      title: 'accounts with a key of an account',
      ask: { method, path, key: '{writekey}' },
      status: 403,
      problem: { code: 'forbidden' },
    }),
  ),
]
