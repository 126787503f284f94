import type { Ask } from '../../support/http/bench.ts'
import type { Row } from './row.ts'

const ask = (version: 2 | 3, requests: unknown[]): Ask => ({
  method: 'POST',
  path: `/v1/databases/{cell}/v${version}/pipeline`,
  body: { baton: null, requests },
})
const execute = (sql: string, args: unknown[] = []) => ({ type: 'execute', stmt: { sql, args } })
const close = { type: 'close' }
const closed = { type: 'ok', response: { type: 'close' } }

/** Streams that one request ends, for the clients of libSQL and Turso. */
export const HRANA_ROWS: Row[] = [
  {
    title: 'Hrana 2: a statement, with values and types',
    ask: ask(2, [
      execute('SELECT ? AS a, ? AS b', [
        { type: 'integer', value: '9007199254740993' },
        { type: 'blob', base64: 'aGk' },
      ]),
      close,
    ]),
    status: 200,
    body: {
      baton: null,
      base_url: null,
      results: [
        {
          type: 'ok',
          response: {
            type: 'execute',
            result: {
              cols: [
                { name: 'a', decltype: null },
                { name: 'b', decltype: null },
              ],
              rows: [
                [
                  { type: 'integer', value: '9007199254740993' },
                  { type: 'blob', base64: 'aGk' },
                ],
              ],
              affected_row_count: 0,
              last_insert_rowid: null,
            },
          },
        },
        closed,
      ],
    },
  },
  {
    title: 'Hrana 3: a description, and an error that is not of the whole',
    ask: ask(3, [
      { type: 'describe', sql: 'SELECT :a AS x, ?' },
      execute('SELECT nowhere'),
      { type: 'get_autocommit' },
      close,
    ]),
    status: 200,
    body: {
      baton: null,
      base_url: null,
      results: [
        {
          type: 'ok',
          response: {
            type: 'describe',
            result: {
              params: [{ name: ':a' }, { name: null }],
              cols: [
                { name: 'x', decltype: null },
                { name: '?', decltype: null },
              ],
              is_explain: false,
              is_readonly: true,
            },
          },
        },
        { type: 'error', error: { message: 'no such column: nowhere', code: 'SQLITE_ERROR' } },
        { type: 'ok', response: { type: 'get_autocommit', is_autocommit: true } },
        closed,
      ],
    },
  },
  {
    title: 'Hrana: a condition of a later step',
    ask: ask(2, [
      {
        type: 'batch',
        batch: { steps: [{ stmt: { sql: 'SELECT 1' }, condition: { type: 'ok', step: 0 } }] },
      },
      close,
    ]),
    status: 400,
    body: {
      message: 'requests[0].batch.steps[0].condition.step must be the number of an earlier step.',
      code: 'INVALID_REQUEST',
    },
  },
]
