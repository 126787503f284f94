import { createHmac } from 'node:crypto'
import { describe, expect, test } from 'vitest'
import { STREAM_BOUNDS } from '../../../src/http/hrana/hrana-streams.ts'
import { Bench, type Reply } from '../../support/http/bench.ts'
import { viaFetch } from '../../support/http/transports.ts'

/** Streams and their batons: what is good once, for one account and one cell, and what becomes of a transaction. */

const bench = Bench.perTest(viaFetch)

interface Sent {
  baton?: string | null | undefined
  requests: unknown[]
  key?: string
  cell?: string
}

function post({ baton = null, requests, key, cell = '{cell}' }: Sent): Promise<Reply> {
  const ask = { method: 'POST', path: `/v1/databases/${cell}/v3/pipeline`, body: { baton, requests } }
  return bench.send(key === undefined ? ask : { ...ask, key })
}

const execute = (sql: string) => ({ type: 'execute', stmt: { sql } })
const begin = [execute('BEGIN'), execute("INSERT INTO t VALUES ('held')")]

async function ok(sent: Sent): Promise<{ baton: string; results: Record<string, unknown>[] }> {
  const { status, json, text } = await post(sent)
  if (status !== 200) throw new Error(text)
  const { baton, results } = json as { baton: string; results: Record<string, unknown>[] }
  const failed = results.find(({ type }) => type === 'error')
  if (failed !== undefined) throw new Error(JSON.stringify(failed))
  return { baton, results }
}

async function refusal(sent: Sent): Promise<[status: number, code: unknown]> {
  const { status, json, headers } = await post(sent)
  expect(headers.get('content-type')).toBe('application/json')
  expect(Object.keys(json as object)).toEqual(['message', 'code'])
  return [status, (json as { code: unknown }).code]
}

const table = () => bench.store.openCell(bench.cell).sql('CREATE TABLE IF NOT EXISTS t (v)')
const rows = () => bench.store.openCell(bench.cell).sql('SELECT v FROM t').rows
const EXPIRED = [409, 'STREAM_EXPIRED']

describe('a baton', () => {
  test('is good once', async () => {
    table()
    const { baton } = await ok({ requests: begin })
    const next = await ok({ baton, requests: [execute("INSERT INTO t VALUES ('next')")] })
    expect(await refusal({ baton, requests: [execute('COMMIT')] })).toEqual(EXPIRED)
    // The stream goes on.
    await ok({ baton: next.baton, requests: [execute('COMMIT'), { type: 'close' }] })
    expect(rows()).toEqual([{ v: 'held' }, { v: 'next' }])
    expect(await refusal({ baton: next.baton, requests: [] })).toEqual(EXPIRED)
  })

  test('that is forged, or changed in any part, opens nothing', async () => {
    table()
    const { baton } = await ok({ requests: begin })
    const [id, number, signature = ''] = baton.split('.')
    const signed = createHmac('sha256', '').update(`${id}.${number}`).digest('base64url')
    const forged = [
      '',
      'x',
      '..',
      `${id}.2.${signature}`,
      `${id}x.${number}.${signature}`,
      `${id}.${number}.${signed}`,
      `${id}.${number}.${signature.slice(1)}`,
      `${id}.${number}.`,
      `__proto__.1.${signature}`,
    ]
    for (const each of forged)
      expect(await refusal({ baton: each, requests: [execute('COMMIT')] }), each).toEqual(EXPIRED)
    expect(await refusal({ baton: 5 as unknown as string, requests: [] })).toEqual([400, 'INVALID_REQUEST'])
    await ok({ baton, requests: [execute('COMMIT'), { type: 'close' }] })
    expect(rows()).toEqual([{ v: 'held' }])
  })

  test('is worth nothing for another account, another cell, or a key that may do less', async () => {
    table()
    const { baton } = await ok({ requests: begin })
    const commit = [execute('COMMIT')]
    const stranger = bench.store.createCell({ accountId: bench.strangerId }).id
    expect(await refusal({ baton, requests: commit, key: bench.strangerKey, cell: stranger })).toEqual(
      EXPIRED,
    )
    expect(await refusal({ baton, requests: commit, key: bench.strangerKey })).toEqual([
      404,
      'CELL_NOT_FOUND',
    ])
    const other = bench.store.createCell({ accountId: bench.accountId }).id
    expect(await refusal({ baton, requests: commit, cell: other })).toEqual(EXPIRED)
    expect(await refusal({ baton, requests: commit, key: '{readkey}' })).toEqual(EXPIRED)
    await ok({ baton, requests: [execute('ROLLBACK'), { type: 'close' }] })
    expect(rows()).toEqual([])
  })

  test('of a key that was revoked is refused as the key is', async () => {
    table()
    const { key, id } = bench.store.apiKeys.create(bench.accountId)
    const { baton } = await ok({ requests: begin, key })
    bench.store.apiKeys.revoke(bench.accountId, id)
    expect(await refusal({ baton, requests: [execute('COMMIT')], key })).toEqual([401, 'UNAUTHORIZED'])
    bench.clock.pass(5_001)
    expect(rows()).toEqual([])
  })

  test('is not good after a restart', async () => {
    table()
    const { baton } = await ok({ requests: [execute('SELECT 1')] })
    await bench.serve(bench.store, viaFetch)
    expect(await refusal({ baton, requests: [] })).toEqual(EXPIRED)
  })

  test('is read wherever it stands in the body, and never from within a text', async () => {
    const { baton } = await ok({ requests: [execute('SELECT 1')] })
    const path = '/v1/databases/{cell}/v2/pipeline'
    const inText = JSON.stringify({
      requests: [execute(`SELECT '"baton":"${baton}"'`), { type: 'close', baton: 'x' }],
    })
    expect((await bench.send({ method: 'POST', path, raw: inText })).status).toBe(200)
    const atEnd = `{"requests":[{"type":"get_autocommit"}] ,\n "baton" : "${baton}"}`
    expect((await bench.send({ method: 'POST', path, raw: atEnd })).status).toBe(200)
    expect((await bench.send({ method: 'POST', path, raw: atEnd })).json).toMatchObject({
      code: 'STREAM_EXPIRED',
    })
  })
})

describe('a stream', () => {
  test('expires after ten seconds without a request', async () => {
    let { baton } = await ok({ requests: [execute('SELECT 1')] })
    for (let i = 0; i < 3; i++) {
      bench.clock.pass(9_900)
      ;({ baton } = await ok({ baton, requests: [{ type: 'get_autocommit' }] }))
    }
    bench.clock.pass(10_001)
    expect(await refusal({ baton, requests: [execute('SELECT 1')] })).toEqual(EXPIRED)
  })

  test('keeps its texts until they are closed, up to 50', async () => {
    const store = (id: number, sql = `SELECT ${id}`) => ({ type: 'store_sql', sql_id: id, sql })
    const stored = await ok({ requests: Array.from({ length: 50 }, (_, i) => store(i)) })
    const { status, json } = await post({
      baton: stored.baton,
      requests: [
        { type: 'execute', stmt: { sql_id: 7 } },
        store(50),
        { type: 'close_sql', sql_id: 7 },
        { type: 'execute', stmt: { sql_id: 7 } },
        store(50),
        { type: 'sequence', sql_id: 50 },
      ],
    })
    expect(status).toBe(200)
    const { results } = json as { results: { type: string; error?: { code: string } }[] }
    expect(results.map(({ type, error }) => error?.code ?? type)).toEqual([
      'ok',
      'SQL_STORE_FULL',
      'ok',
      'SQL_NOT_FOUND',
      'ok',
      'ok',
    ])
  })

  test('keeps texts of half a million characters together', async () => {
    const store = (id: number, length: number) => ({ type: 'store_sql', sql_id: id, sql: 'x'.repeat(length) })
    const { baton } = await ok({ requests: [store(1, 300_000), store(1, 400_000)] })
    const { json } = await post({
      baton,
      requests: [store(2, 200_000), store(2, 100_000), store(1, 424_000)],
    })
    expect(json).toMatchObject({
      results: [{ error: { code: 'SQL_STORE_FULL' } }, { type: 'ok' }, { type: 'ok' }],
    })
  })

  test('takes one request at a time', async () => {
    const { baton } = await ok({ requests: [execute('SELECT 1')] })
    const both = await Promise.all([post({ baton, requests: [] }), post({ baton, requests: [] })])
    expect(both.map(({ status }) => status).sort()).toEqual([200, 409])
  })

  test('is ended by an error of a whole request, with its transaction', async () => {
    table()
    const { baton } = await ok({ requests: begin })
    expect(await refusal({ baton, requests: [{ type: 'nonsense' }] })).toEqual([400, 'INVALID_REQUEST'])
    expect((await refusal({ baton, requests: [execute('COMMIT')] }))[0]).toBeGreaterThanOrEqual(400)
    // Nothing holds the cell, and nothing of the transaction is there.
    await ok({ requests: [execute("INSERT INTO t VALUES ('after')"), { type: 'close' }] })
    expect(rows()).toEqual([{ v: 'after' }])
  })

  test('without a transaction is forgotten when its account has many newer ones; one with a transaction stays', async () => {
    table()
    const held = await ok({ requests: begin })
    const oldest = await ok({ requests: [execute('SELECT 1')] })
    let newest = oldest
    for (let i = 0; i < STREAM_BOUNDS.perAccount; i++) newest = await ok({ requests: [] })
    expect(await refusal({ baton: oldest.baton, requests: [] })).toEqual(EXPIRED)
    await ok({ baton: newest.baton, requests: [] })
    bench.clock.pass(-1)
    await ok({ baton: held.baton, requests: [execute('COMMIT'), { type: 'close' }] })
    expect(rows()).toEqual([{ v: 'held' }])
  })
})

describe('a transaction that is open', () => {
  test('has 5 seconds; then everything on its stream is told so, and nothing is committed on its own', async () => {
    table()
    const { baton } = await ok({ requests: begin })
    bench.clock.pass(5_001)
    const late = { baton, requests: [execute("INSERT INTO t VALUES ('late')"), execute('COMMIT')] }
    expect(await refusal(late)).toEqual([408, 'TRANSACTION_TIMEOUT'])
    expect(await refusal(late)).toEqual([408, 'TRANSACTION_TIMEOUT'])
    expect(await refusal({ baton, requests: [{ type: 'close' }] })).toEqual([408, 'TRANSACTION_TIMEOUT'])
    expect(rows()).toEqual([])
  })

  test.each<[what: string, end: () => unknown, expected: [number, string]]>([
    ['a restore of the cell', () => bench.store.backups.restore(bench.cell), [409, 'STREAM_EXPIRED']],
    ['the deletion of the cell', () => bench.store.deleteCell(bench.cell), [404, 'CELL_NOT_FOUND']],
  ])('is lost with %s, and the next request is told so', async (_what, end, expected) => {
    table()
    await bench.store.backups.snapshot(bench.cell)
    const { baton } = await ok({ requests: begin })
    await end()
    expect(await refusal({ baton, requests: [execute('COMMIT')] })).toEqual(expected)
  })

  test('holds up changes of its own cell alone, and no reads', async () => {
    table()
    const { baton } = await ok({ requests: begin })
    const read = await ok({ requests: [execute('SELECT count(*) FROM t'), { type: 'close' }] })
    expect(JSON.stringify(read.results)).toContain('"value":"0"')
    const other = bench.store.createCell({ accountId: bench.accountId }).id
    await ok({ cell: other, requests: [execute('CREATE TABLE t (v)'), { type: 'close' }] })
    const waits = ok({ requests: [execute("INSERT INTO t VALUES ('waits')"), { type: 'close' }] })
    await ok({ baton, requests: [execute('COMMIT'), { type: 'close' }] })
    await waits
    expect(rows()).toEqual([{ v: 'held' }, { v: 'waits' }])
  })

  test('that others wait for is committed also if the same request goes on: what would begin the next one is refused by itself', async () => {
    table()
    const { baton } = await ok({ requests: begin })
    const waits = ok({ requests: [execute('BEGIN'), execute("INSERT INTO t VALUES ('waits')")] })
    await ok({ requests: [execute('SELECT 1'), { type: 'close' }] })
    const insert = execute("INSERT INTO t VALUES ('behind')")
    const requests = [execute('COMMIT'), insert, execute('BEGIN'), execute('SELECT 1'), { type: 'close' }]
    const { json } = await post({ baton, requests })
    const isBusy = { error: { code: 'SQLITE_BUSY' } }
    expect(json).toMatchObject({ results: [{ type: 'ok' }, isBusy, isBusy, { type: 'ok' }, { type: 'ok' }] })
    await ok({ baton: (await waits).baton, requests: [execute('COMMIT'), { type: 'close' }] })
    expect(rows()).toEqual([{ v: 'held' }, { v: 'waits' }])
  })

  test.each(['BEGIN', 'BEGIN IMMEDIATE', 'BEGIN EXCLUSIVE TRANSACTION', 'BEGIN TRANSACTION READONLY'])(
    'of a key that only reads holds up no changes, begun with %s',
    async (sql) => {
      table()
      const key = '{readkey}'
      const count = execute('SELECT count(*) FROM t')
      const { baton } = await ok({ key, requests: [execute(sql), count] })
      bench.store.openCell(bench.cell).sql("INSERT INTO t VALUES ('meanwhile')")
      const { json } = await post({
        key,
        baton,
        requests: [count, execute('DELETE FROM t'), execute('COMMIT')],
      })
      expect(json).toMatchObject({
        results: [
          { response: { result: { rows: [[{ value: '0' }]] } } },
          { error: { code: 'SQLITE_READONLY' } },
          { type: 'ok' },
        ],
      })
      expect(rows()).toEqual([{ v: 'meanwhile' }])
    },
  )

  test('of a key that only reads may begin with a savepoint', async () => {
    table()
    const requests = ['SAVEPOINT a', 'SELECT * FROM t', 'DELETE FROM t', 'ROLLBACK TO a', 'RELEASE a'].map(
      execute,
    )
    const { json } = await post({ key: '{readkey}', requests })
    expect(json).toMatchObject({
      results: [
        { type: 'ok' },
        { type: 'ok' },
        { error: { code: 'SQLITE_READONLY' } },
        { type: 'ok' },
        { type: 'ok' },
      ],
    })
  })

  test('has no room once its account has 16: a request that would begin one is refused before anything of it runs', async () => {
    table()
    const insert = execute('INSERT INTO t VALUES (1)')
    const open = []
    for (let i = 0; i < 16; i++) {
      const cell = bench.store.createCell({ accountId: bench.accountId }).id
      open.push({
        cell,
        ...(await ok({ cell, requests: [execute('CREATE TABLE t (v)'), execute('BEGIN')] })),
      })
    }
    expect(await refusal({ requests: [insert, execute('BEGIN'), insert] })).toEqual([503, 'BUSY'])
    expect(rows()).toEqual([])
    const [{ cell, baton }] = open as [(typeof open)[number]]
    const next = await ok({ cell, baton, requests: [insert, execute('COMMIT'), execute('BEGIN'), insert] })
    expect(bench.store.openCell(cell).sql('SELECT v FROM t').rows).toEqual([{ v: 1 }])
    // These leave none open.
    await ok({ requests: [execute('BEGIN'), insert, execute('COMMIT'), { type: 'close' }] })
    await ok({ requests: [execute('SAVEPOINT a'), insert, execute('RELEASE a')] })
    await ok({ requests: [execute('PRAGMA foreign_keys = OFF'), insert] })
    await ok({ cell, baton: next.baton, requests: [execute('COMMIT')] })
    await ok({ requests: [insert, execute('BEGIN'), insert] })
    expect(rows()).toHaveLength(4)
  })

  test('may have a savepoint of its own as its beginning only within a request', async () => {
    table()
    const within = [execute('SAVEPOINT a'), execute("INSERT INTO t VALUES ('in')"), execute('RELEASE a')]
    await ok({ requests: within })
    expect(rows()).toEqual([{ v: 'in' }])
    expect(await refusal({ requests: within.slice(0, 2) })).toEqual([400, 'INVALID_REQUEST'])
    expect(await refusal({ requests: [execute('PRAGMA foreign_keys = OFF'), execute('BEGIN')] })).toEqual([
      400,
      'INVALID_REQUEST',
    ])
    expect(rows()).toEqual([{ v: 'in' }])
  })
})

describe('a request', () => {
  test('with nothing behind PRAGMA foreign_keys = OFF is refused: what comes in the next one would delete rows', async () => {
    const off = execute('PRAGMA foreign_keys = OFF')
    for (const requests of [[off], [off, { type: 'close' }], [execute('SELECT 1'), off, { type: 'close' }]])
      expect(await refusal({ requests })).toEqual([400, 'INVALID_REQUEST'])
    await ok({ requests: [execute('PRAGMA foreign_keys = ON'), { type: 'close' }] })
    await ok({ requests: [off, execute('CREATE TABLE x (v)'), { type: 'close' }] })
    const { results } = await ok({ requests: [execute('PRAGMA foreign_keys'), { type: 'close' }] })
    expect(JSON.stringify(results)).toContain('"value":"1"')
  })

  test.each([[['INSERT INTO t VALUES (1)']], [['SAVEPOINT a', 'INSERT INTO t VALUES (1)', 'RELEASE a']]])(
    'can change the cell behind a transaction that only reads: %j',
    async (changes) => {
      table()
      await ok({ requests: ['BEGIN READONLY', 'COMMIT', ...changes].map(execute) })
      expect(rows()).toEqual([{ v: 1 }])
    },
  )

  test('of 2 MiB is read, with thousands of statements', async () => {
    table()
    const text = 'x'.repeat(180)
    const requests = Array.from({ length: 7_000 }, (_, i) => execute(`INSERT INTO t VALUES ('${text}${i}')`))
    await ok({ requests: [...requests, { type: 'close' }] })
    expect(rows()).toHaveLength(7_000)
    expect(await refusal({ requests: [...requests, ...requests] })).toEqual([413, 'BODY_TOO_LARGE'])
  })

  test('of conditions inside each other is refused, however deep', async () => {
    const depth = 40_000
    const raw = `{"requests":[{"type":"batch","batch":{"steps":[{"stmt":{"sql":"SELECT 1"},"condition":${'{"type":"not","cond":'.repeat(depth)}{"type":"is_autocommit"}${'}'.repeat(depth)}}]}}]}`
    const { status, json } = await bench.send({
      method: 'POST',
      path: '/v1/databases/{cell}/v2/pipeline',
      raw,
    })
    expect([status, json]).toMatchObject([400, { code: 'INVALID_REQUEST' }])
  })

  test.each<[what: string, body: unknown, field: string]>([
    ['no list', { requests: {} }, 'requests'],
    ['an unknown request', { requests: [{ type: 'x' }] }, 'requests[0].type'],
    ['neither sql nor sql_id', { requests: [{ type: 'execute', stmt: {} }] }, 'requests[0].stmt'],
    [
      'a number as it is',
      { requests: [{ type: 'execute', stmt: { sql: 'SELECT ?', args: [5] } }] },
      'requests[0].stmt.args[0]',
    ],
    [
      'an integer that is a number',
      { requests: [{ type: 'execute', stmt: { sql: 'SELECT ?', args: [{ type: 'integer', value: 5 }] } }] },
      'requests[0].stmt.args[0]',
    ],
    [
      'a name that is none',
      {
        requests: [
          { type: 'execute', stmt: { sql: 'SELECT :a', named_args: [{ value: { type: 'null' } }] } },
        ],
      },
      'requests[0].stmt.named_args[0].name',
    ],
  ])('that has %s is refused, and the message says where', async (_what, body, field) => {
    const { status, json } = await bench.send({
      method: 'POST',
      path: '/v1/databases/{cell}/v2/pipeline',
      body,
    })
    expect(status).toBe(400)
    expect((json as { message: string }).message.startsWith(field)).toBe(true)
  })

  test('of a cursor gives its entries line by line', async () => {
    const stmt = (sql: string) => ({ stmt: { sql } })
    const steps = [
      stmt("VALUES (1, 'a'), (2, NULL)"),
      stmt('SELECT nowhere'),
      { ...stmt('SELECT 3'), condition: { type: 'ok', step: 1 } },
    ]
    const { text, headers } = await bench.send({
      method: 'POST',
      path: '/v1/databases/{cell}/v3/cursor',
      body: { batch: { steps } },
    })
    expect(headers.get('content-type')).toBe('application/x-ndjson')
    expect(text.endsWith('\n')).toBe(true)
    const lines = text
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line))
    expect(lines).toEqual([
      { baton: expect.any(String), base_url: null },
      {
        type: 'step_begin',
        step: 0,
        cols: [
          { name: 'column1', decltype: null },
          { name: 'column2', decltype: null },
        ],
      },
      {
        type: 'row',
        row: [
          { type: 'integer', value: '1' },
          { type: 'text', value: 'a' },
        ],
      },
      { type: 'row', row: [{ type: 'integer', value: '2' }, { type: 'null' }] },
      { type: 'step_end', affected_row_count: 0, last_insert_rowid: null },
      { type: 'step_error', step: 1, error: { message: 'no such column: nowhere', code: 'SQLITE_ERROR' } },
    ])
  })

  test('that breaks a deferred foreign key at its COMMIT keeps nothing', async () => {
    const cell = bench.store.openCell(bench.cell)
    cell.sql('CREATE TABLE p (id INTEGER PRIMARY KEY)')
    cell.sql('CREATE TABLE c (p REFERENCES p(id) DEFERRABLE INITIALLY DEFERRED)')
    const insert = execute('INSERT INTO c VALUES (9)')
    expect(await refusal({ requests: [insert, { type: 'close' }] })).toEqual([409, 'SQLITE_CONSTRAINT'])
    expect(
      await refusal({ requests: [execute('BEGIN'), insert, execute('COMMIT'), { type: 'close' }] }),
    ).toEqual([409, 'SQLITE_CONSTRAINT'])
    const { baton } = await ok({ requests: [execute('BEGIN'), insert] })
    const { json } = await post({ baton, requests: [execute('COMMIT'), execute('ROLLBACK')] })
    expect(json).toMatchObject({
      results: [{ error: { code: 'SQLITE_CONSTRAINT' } }, { error: { code: 'SQLITE_ERROR' } }],
    })
    expect(cell.sql('SELECT * FROM c').rows).toEqual([])
  })
})
