import { expect, test } from 'vitest'
import { Workplace } from '../../support/cli/workplace.ts'
import { type HranaCell, newCell, serveCell } from '../../support/http/hrana-cell.ts'
import { workersOf } from '../../support/processes.ts'
import { until } from '../../support/until.ts'

/** Hrana against a node with workers: what ends a worker, and what an account's quota bounds. */

const execute = (sql: string) => ({ type: 'execute', stmt: { sql } })
const close = { type: 'close' }
const ENDLESS = 'WITH RECURSIVE c(n) AS (VALUES (1) UNION ALL SELECT n + 1 FROM c) SELECT count(*) FROM c'

async function send({ node, id }: HranaCell, requests: unknown[], baton: unknown = null) {
  const { status, body } = await node.request('POST', `/v1/databases/${id}/v2/pipeline`, { baton, requests })
  return { status, baton: body['baton'], code: body['code'], body: JSON.stringify(body) }
}

test('a statement without an end is ended after its time, with all of its request and its transaction', async () => {
  const cell = await serveCell(1, { statementTimeout: 2_000 } as never)
  await send(cell, [execute('CREATE TABLE t (v)'), close])
  const alone = await send(cell, [execute('INSERT INTO t VALUES (1)'), execute(ENDLESS), close])
  expect([alone.status, alone.code]).toEqual([408, 'STATEMENT_TIMEOUT'])
  const { baton } = await send(cell, [execute('BEGIN'), execute('INSERT INTO t VALUES (2)')])
  const held = await send(cell, [execute(ENDLESS)], baton)
  expect([held.status, held.code]).toEqual([408, 'STATEMENT_TIMEOUT'])
  const later = await send(cell, [execute('COMMIT'), close], baton)
  expect([later.status, later.code]).toEqual([408, 'STATEMENT_TIMEOUT'])
  expect((await send(cell, [execute('SELECT * FROM t'), close])).body).toContain('"rows":[]')
})

test('a statement without an end behind a COMMIT of the same request is ended as any, and says that what was committed stays', async () => {
  const cell = await serveCell(1, { statementTimeout: 2_000 } as never)
  await send(cell, [execute('CREATE TABLE t (v)'), close])
  const insert = execute('INSERT INTO t VALUES (1)')
  const sent = await send(cell, [insert, execute('BEGIN'), insert, execute(ENDLESS), execute('COMMIT')])
  expect([sent.status, sent.code]).toEqual([408, 'STATEMENT_TIMEOUT'])
  expect(sent.body).toContain('committed before it stays')
  expect((await send(cell, [execute('SELECT count(*) FROM t'), close])).body).toContain('"value":"1"')
})

test('a transaction whose worker is killed is lost, and nothing of it is ever committed', async () => {
  const cell = await serveCell(1)
  await send(cell, [execute('CREATE TABLE t (v)'), close])
  const { baton } = await send(cell, [execute('BEGIN'), execute('INSERT INTO t VALUES (1)')])
  const before = workersOf(cell.node.dataDir)
  for (const pid of before) process.kill(pid, 'SIGKILL')
  await until(
    () => workersOf(cell.node.dataDir).every((pid) => !before.includes(pid)),
    'the workers have ended',
  )
  const after = await send(cell, [execute('INSERT INTO t VALUES (2)'), execute('COMMIT'), close], baton)
  expect([after.status, after.code]).toEqual([409, 'STREAM_EXPIRED'])
  expect((await send(cell, [execute('SELECT * FROM t'), close])).body).toContain('"rows":[]')
})

test('after a kill of the node and its next start, a baton of before opens nothing, and of its transaction nothing is there', async () => {
  const place = new Workplace()
  const before = await place.serve('--workers', '1')
  const id = String((await before.request('POST', '/v1/databases')).body['id'])
  const route = `/v1/databases/${id}/v2/pipeline`
  await before.request('POST', route, { requests: [execute('CREATE TABLE t (v)'), close] })
  const stream = { requests: [execute('SELECT 1')] }
  const transaction = { requests: [execute('BEGIN'), execute('INSERT INTO t VALUES (1)')] }
  const batons = []
  for (const body of [stream, transaction])
    batons.push((await before.request('POST', route, body)).body['baton'])
  before.child.kill('SIGKILL')
  await before.ended
  const after = await place.serve('--workers', '1')
  const post = (body: unknown) => after.request('POST', route, body, before.key)
  for (const baton of batons) {
    const answer = await post({ baton, requests: [execute('COMMIT'), close] })
    expect([answer.status, answer.body['code']]).toEqual([409, 'STREAM_EXPIRED'])
  }
  const found = await post({ requests: [execute('SELECT * FROM t'), close] })
  expect(JSON.stringify(found.body)).toContain('"rows":[]')
  expect(await after.stop()).toEqual([0, null])
})

test('an account that stores its quota of bytes grows by no pipeline, and by no transaction', async () => {
  const cell = await serveCell(1, { accountBytes: 400_000 } as never)
  const blob = (bytes: number) => execute(`INSERT INTO t VALUES (zeroblob(${bytes}))`)
  await send(cell, [execute('CREATE TABLE t (v)'), close])
  // More than the share of a first run: it is run again with more.
  expect((await send(cell, [blob(200_000), close])).status).toBe(200)
  const full = await send(cell, [blob(600_000), close])
  expect([full.status, full.code]).toEqual([403, 'QUOTA_EXCEEDED'])
  const { baton } = await send(cell, [execute('BEGIN'), execute('SELECT 1')])
  const held = await send(cell, [blob(600_000)], baton)
  expect([held.status, held.code]).toEqual([507, 'SQLITE_FULL'])
  // What was committed before, in the same request, stays, and the answer says so.
  const small = await send(cell, [execute('BEGIN'), blob(1)])
  const behind = await send(cell, [execute('COMMIT'), blob(600_000), close], small.baton)
  expect([behind.status, behind.body.match(/"type":"(ok|error)"|SQLITE_[A-Z]+/g)]).toEqual([
    200,
    ['"type":"ok"', '"type":"error"', 'SQLITE_FULL', '"type":"ok"'],
  ])
  // Another cell of the account still serves.
  const other = { ...cell, ...(await newCell(cell.node)) }
  expect((await send(other, [execute('CREATE TABLE t (v)'), close])).status).toBe(200)
  const { body } = await send(cell, [execute('SELECT count(*) FROM t'), close])
  expect(body).toContain('"value":"2"')
})
