import { describe, expect, test, vi } from 'vitest'
import { CellError, type CellErrorCode, ERROR_KINDS } from '../../src/errors.ts'
import { problemResponse, STATUS_OF_CODE } from '../../src/http/core/problem.ts'
import type { CellService } from '../../src/service/cell-service.ts'
import { Bench } from '../support/http/bench.ts'
import { UNCHECKED_TRANSPORTS, viaFetch } from '../support/http/transports.ts'
import { AREAS } from './rows/areas.ts'
import { checkEveryReply, checkProblem } from './rows/row.ts'

const codes = Object.keys(ERROR_KINDS) as CellErrorCode[]

/** Codes that other files of this folder reach, through both transports. */
const REACHED_ELSEWHERE: CellErrorCode[] = [
  'unauthorized', // common-rules
  'account_suspended', // ended-meanwhile
  'invalid_database', // files
  'method_not_allowed', // common-rules
  'unsupported_media_type', // request-bodies
  'body_too_large', // request-bodies
  'invalid_json', // request-bodies
  'shutting_down', // node-server, shutdown
  'rate_limited', // rate-limiter
  'restore_canceled', // async-restores
  'stream_expired', // hrana/streams
  'headers_too_large', // node-server
  'request_timeout', // node-server
  'internal', // below
]

/** Codes that no request can bring about here, and why. What HTTP makes of them is checked below all the same. */
const NOT_REACHED: Partial<Record<CellErrorCode, string>> = {
  statement_timeout: 'SQLite can not be interrupted in its own process: only workers end a statement',
  transaction_too_large: 'only workers end a statement',
  transaction_timeout: 'no request of this suite waits for so long',
  transaction_lost: 'takes a restore, a deletion or a killed worker under an open transaction',
  idempotency_in_progress: 'a cell is made synchronously: no second request can meet the first one half done',
  busy: 'one connection writes a cell: only a foreign program on its files makes it busy',
  disk_full: 'takes a full disk',
  cells_missing: 'takes a disk that is not mounted',
  store_closed: 'becomes shutting_down',
  taken_over: 'becomes shutting_down',
  cell_moving: 'takes several nodes: forwarding/',
  not_serving: 'takes several nodes: forwarding/',
  object_store_in_use: 'only a start throws it',
  store_outdated: 'only a start throws it',
  store_exists: 'opening a store only',
  store_not_found: 'opening a store only',
  store_locked: 'opening a store only',
  invalid_setting: 'opening a store only',
  unsupported_runtime: 'opening a store only',
  object_store_mismatch: 'opening a store only',
  cluster_unavailable: 'many nodes only',
  node_unreachable: 'the command line only',
  name_ambiguous: 'the library and the command line only',
  object_exists: 'backups take another version by themselves',
}

test('every code is reached by a request, or listed with the reason why it is not', () => {
  const inRows = AREAS.flatMap(([, rows]) => rows).flatMap(({ problem }) => problem?.code ?? [])
  const reached = new Set([...inRows, ...REACHED_ELSEWHERE])
  const listed = Object.keys(NOT_REACHED) as CellErrorCode[]
  expect(codes.filter((code) => !reached.has(code))).toEqual(codes.filter((code) => listed.includes(code)))
  expect(listed.filter((code) => reached.has(code))).toEqual([])
})

/** The contract's table. */
const DOCUMENTED: [status: number, codes: CellErrorCode[]][] = [
  [401, ['unauthorized']],
  [
    404,
    [
      'not_found',
      'cell_not_found',
      'account_not_found',
      'api_key_not_found',
      'key_not_found',
      'backup_not_found',
    ],
  ],
  [404, ['restore_not_found']],
  [405, ['method_not_allowed']],
  [412, ['precondition_failed']],
  [415, ['unsupported_media_type']],
  [413, ['body_too_large', 'value_too_large', 'sql_too_long']],
  [
    400,
    ['invalid_json', 'invalid_request', 'invalid_key', 'invalid_ttl', 'invalid_version', 'invalid_parameter'],
  ],
  [400, ['not_an_integer', 'integer_overflow', 'idempotency_not_supported']],
  [
    409,
    [
      'idempotency_in_progress',
      'constraint_violation',
      'no_backup',
      'restore_in_progress',
      'restore_canceled',
    ],
  ],
  [409, ['name_taken', 'transaction_lost', 'stream_expired']],
  [422, ['idempotency_key_reused', 'backup_corrupt', 'invalid_database']],
  [
    400,
    [
      'sql_error',
      'multiple_statements',
      'param_count_mismatch',
      'result_too_large',
      'result_memory_exceeded',
      'transaction_too_large',
    ],
  ],
  [403, ['statement_not_allowed', 'quota_exceeded', 'forbidden', 'account_suspended']],
  [408, ['statement_timeout', 'request_timeout', 'transaction_timeout']],
  [431, ['headers_too_large']],
  [429, ['rate_limited']],
  [502, ['object_store_error']],
  [
    503,
    [
      'object_store_unavailable',
      'cluster_unavailable',
      'not_replicated',
      'cell_restoring',
      'cells_missing',
      'cell_moving',
      'not_serving',
      'cell_quarantined',
      'busy',
      'shutting_down',
    ],
  ],
  [507, ['cell_full', 'disk_full']],
  [500, ['internal']],
  // Ours: a library's user can open a store without an object store and serve it.
  [501, ['object_store_not_configured']],
]

describe('the table of statuses', () => {
  test.each(DOCUMENTED)('%i: %j', (status, documented) => {
    for (const code of documented) expect({ code, status: STATUS_OF_CODE[code] }).toEqual({ code, status })
  })

  test('shows every other code as internal, save for a store that is closed or taken over', () => {
    const documented = new Set(DOCUMENTED.flatMap(([, some]) => some))
    for (const code of codes.filter((other) => !documented.has(other))) {
      const response = problemResponse(new CellError(code, 'the path /var/lib/x'), 'id')
      const shown = code === 'store_closed' || code === 'taken_over' ? 'shutting_down' : 'internal'
      expect(JSON.parse(response.body)).toMatchObject({ code: shown, status: response.status })
      expect(response.body).not.toContain('/var/lib/x')
    }
  })

  test.each(codes)('%s has a Retry-After exactly with 429 and 503', (code) => {
    const response = problemResponse(new CellError(code, 'x'), 'id')
    expect('Retry-After' in response.headers).toBe(response.status === 429 || response.status === 503)
  })

  test('takes the wait that the error names, in whole seconds, rounded up', () => {
    const after = (retryAfterMs: number) =>
      problemResponse(new CellError('busy', 'x', { retryAfterMs }), 'id').headers['Retry-After']
    expect([0, 1, 1_000, 1_001, 59_999].map(after)).toEqual(['1', '1', '1', '2', '60'])
  })
})

describe('an error about an option that bodies call something else', () => {
  const shown = (message: string, field: string) => {
    const error = new CellError('invalid_ttl', message, { field, limit: 9 })
    return JSON.parse(problemResponse(error, 'id').body)
  }

  test.each([
    ['ttlSeconds', 'ttl_seconds'],
    ['keepTtl', 'keep_ttl'],
    ['entries[2].ttlSeconds', 'entries[2].ttl_seconds'],
    ['operations[1].entries[2].ttlSeconds', 'operations[1].entries[2].ttl_seconds'],
  ])('names %s as %s', (option, field) => {
    const detail = `${field} is a whole number from 1 to 9 (limits.ttlSecondsMax).`
    expect(shown(`${option} is a whole number from 1 to 9 (limits.ttlSecondsMax).`, option)).toMatchObject({
      field,
      detail,
      limit: 9,
    })
  })

  test.each(['value', 'params.ttlSeconds', 'operations[0].params.ttlSeconds', 'keys[0]', 'toString'])(
    'and leaves %s as it is',
    (field) => {
      expect(shown(`${field} is wrong.`, field)).toMatchObject({ field, detail: `${field} is wrong.` })
    },
  )
})

/** A service of which every method fails alike. */
function failing(error: unknown): CellService {
  const fail = () => Promise.reject(error)
  return {
    execute: fail,
    watch: fail,
    describe: fail,
    exportCell: fail,
    importCell: fail,
    branchCell: fail,
    deleteCell: fail,
    get backups(): never {
      throw error
    },
    confirmCell: fail,
    confirmRecord: fail,
  }
}

describe.each(UNCHECKED_TRANSPORTS)('through %s', (_name, transport) => {
  const ask = { method: 'GET', path: '/v1/databases/{cell}/kv/k' }

  test.each(Object.keys(NOT_REACHED) as CellErrorCode[])('a service that fails with %s', async (code) => {
    const error = new CellError(code, 'What to do.', {
      limit: 5,
      field: 'f',
      sqliteCode: 'S',
      member: 'm',
      index: 1,
    })
    const bench = await Bench.open(transport, { handler: { service: failing(error) } })
    const reply = await bench.send(ask)
    checkEveryReply(reply, bench, ask)
    const shown = problemResponse(error, reply.headers.get('x-request-id') ?? '')
    expect({ status: reply.status, body: reply.text }).toEqual({ status: shown.status, body: shown.body })
    expect(bench.logged).toHaveLength(shown.status === 500 ? 1 : 0)
    await bench.close()
  })

  test('a bug is logged under the request’s id, with its route and not its path, and not shown', async () => {
    const bug = new Error('secret of another tenant in /srv/cellstore/cell.db')
    const bench = await Bench.open(transport, { handler: { service: failing(bug) } })
    const reply = await bench.send({ ...ask, headers: { 'x-request-id': 'my-id' } })
    checkEveryReply(reply, bench, ask)
    checkProblem(reply, 500, { code: 'internal' })
    expect(reply.text).not.toContain('secret')
    const logged = { requestId: 'my-id', method: 'GET', route: '/v1/databases/{id}/kv/{key}', err: bug }
    expect(bench.logged).toEqual([logged])
    await bench.close()
  })
})

test('without a logger, a bug becomes a warning of the process', async () => {
  const warn = vi.spyOn(process, 'emitWarning').mockImplementation(() => {})
  const bench = await Bench.open(viaFetch, {
    handler: { service: failing(new Error('oh')), logger: undefined },
  })
  await bench.send({ method: 'GET', path: '/v1/databases/{cell}/kv/k', headers: { 'x-request-id': 'my-id' } })
  const options = expect.objectContaining({
    code: 'CELLSTORE_INTERNAL',
    detail: expect.stringContaining('oh'),
  })
  expect(warn.mock.calls).toEqual([[expect.stringContaining('my-id'), options]])
  warn.mockRestore()
  await bench.close()
})
