import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { type Ask, Bench, type Reply } from '../support/http/bench.ts'
import { TRANSPORTS_AND_NODES } from '../support/http/transports.ts'
import { checkEveryReply, checkProblem } from './rows/row.ts'

const kv = '/v1/databases/{cell}/kv'

describe.each(TRANSPORTS_AND_NODES)('conditions, through %s', (_name, transport) => {
  let bench: Bench
  beforeAll(async () => {
    bench = await Bench.open(transport)
  })
  afterAll(() => bench.close())
  beforeEach(() => {
    bench.newCell()
  })

  async function send(ask: Ask): Promise<Reply> {
    const reply = await bench.send(ask)
    if (reply.status !== 304) checkEveryReply(reply, bench, ask)
    return reply
  }
  const put = (value: string, headers: Record<string, string> = {}) =>
    send({ method: 'PUT', path: `${kv}/k`, body: { value }, headers })
  const get = (headers: Record<string, string> = {}) => send({ method: 'GET', path: `${kv}/k`, headers })
  const etagOf = ({ headers }: Reply) => headers.get('etag') ?? ''

  test('the ETag of a put is that of the next read, and its version is in both bodies', async () => {
    const written = await put('v')
    const read = await get()
    expect(etagOf(read)).toBe(etagOf(written))
    for (const { json } of [written, read])
      expect(`"${(json as { version: string }).version}"`).toBe(etagOf(read))
  })

  test('If-Match changes and deletes an entry only while it has the version', async () => {
    const first = etagOf(await put('1'))
    const second = etagOf(await put('2', { 'if-match': first }))
    checkProblem(await put('3', { 'if-match': first }), 412, { code: 'precondition_failed' })
    expect((await get()).json).toMatchObject({ value: '2' })
    const remove = (etag: string) =>
      send({ method: 'DELETE', path: `${kv}/k`, headers: { 'if-match': etag } })
    checkProblem(await remove(first), 412, { code: 'precondition_failed' })
    expect((await remove(second)).json).toEqual({ key: 'k', deleted: true })
    checkProblem(await remove('*'), 412, { code: 'precondition_failed' })
    checkProblem(await put('4', { 'if-match': second }), 412, { code: 'precondition_failed' })
  })

  test('exactly one of many puts with If-None-Match: * succeeds', async () => {
    const replies = await Promise.all(
      Array.from({ length: 12 }, (_, i) => put(String(i), { 'if-none-match': '*' })),
    )
    const won = replies.flatMap(({ status }, i) => (status === 200 ? [String(i)] : []))
    expect(won).toHaveLength(1)
    expect(replies.filter(({ status }) => status === 412)).toHaveLength(11)
    expect((await get()).json).toMatchObject({ value: won[0] })
  })

  test('If-None-Match answers a read with 304 and no body while nothing has changed', async () => {
    const etag = etagOf(await put('v'))
    for (const sent of [etag, `W/${etag}`, `"other", ${etag}`, '*']) {
      const reply = await get({ 'if-none-match': sent })
      expect({ status: reply.status, text: reply.text, etag: etagOf(reply) }).toEqual({
        status: 304,
        text: '',
        etag,
      })
      for (const name of ['x-request-id', 'cache-control']) expect(reply.headers.get(name)).not.toBeNull()
      for (const name of ['content-type', 'content-length']) expect(reply.headers.get(name)).toBeNull()
    }
    expect((await get({ 'if-none-match': '"other"' })).json).toMatchObject({ value: 'v' })
    await put('w')
    expect((await get({ 'if-none-match': etag })).json).toMatchObject({ value: 'w' })
    await send({ method: 'DELETE', path: `${kv}/k` })
    checkProblem(await get({ 'if-none-match': etag }), 404, { code: 'key_not_found' })
  })

  test.each([
    ['kv/ops/incr', { key: 'k' }],
    ['kv/ops/expire', { key: 'k', ttl_seconds: 5 }],
    ['kv/ops/mset', { entries: [{ key: 'k', value: 'w' }] }],
    ['kv/ops/delete', { keys: ['k'] }],
    ['kv/ops/getdel', { key: 'k' }],
    ['batch', { operations: [{ kv: 'delete', key: 'k' }] }],
    ['sql', { sql: 'CREATE TABLE t (a)' }],
  ])('no header is ignored where none is judged: %s changes nothing', async (path, body) => {
    const etag = etagOf(await put('1'))
    for (const [name, header] of [
      ['If-Match', etag],
      ['If-None-Match', '*'],
    ] as const) {
      const headers = { [name]: header }
      const refused = await send({ method: 'POST', path: `/v1/databases/{cell}/${path}`, body, headers })
      checkProblem(refused, 400, { code: 'invalid_request', field: name })
    }
    expect(etagOf(await get())).toBe(etag)
  })

  test('a batch takes them as if_version, and getdel too', async () => {
    const batch = (operations: object[]) =>
      send({ method: 'POST', path: '/v1/databases/{cell}/batch', body: { operations } })
    const { json } = await put('1')
    const { version } = json as { version: string }
    const change = { kv: 'put', key: 'k', value: '2', if_version: version }
    const done = await batch([{ kv: 'put', key: 'new', value: 'v', if_version: null }, change])
    expect(done.json).toMatchObject({
      results: [
        { key: 'new', created: true },
        { key: 'k', created: false },
      ],
    })
    checkProblem(await batch([{ kv: 'delete', key: 'new' }, change]), 412, {
      code: 'precondition_failed',
      index: 1,
    })
    const missing = { kv: 'delete', key: 'none', if_version: '*' }
    checkProblem(await batch([missing]), 412, { code: 'precondition_failed', index: 0 })
    const taken = await batch([
      { kv: 'getdel', key: 'new' },
      { kv: 'getdel', key: 'new' },
    ])
    expect(taken.json).toMatchObject({ results: [{ entry: { key: 'new', value: 'v' } }, { entry: null }] })
  })

  test('the values that a batch deletes and returns are bounded together', async () => {
    const value = 'v'.repeat(1_000_000)
    const keys = Array.from({ length: 12 }, (_, i) => `k${i}`)
    for (const key of keys) await send({ method: 'PUT', path: `${kv}/${key}`, body: { value } })
    const operations = keys.map((key) => ({ kv: 'getdel', key }))
    const refused = await send({ method: 'POST', path: '/v1/databases/{cell}/batch', body: { operations } })
    checkProblem(refused, 400, { code: 'result_too_large', limit: 10_485_760, index: 10 })
    const { json } = await send({ method: 'GET', path: kv })
    expect((json as { entries: unknown[] }).entries).toHaveLength(keys.length)
  })
})
