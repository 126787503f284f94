import fs from 'node:fs'
import path from 'node:path'
import { setImmediate } from 'node:timers/promises'
import { pathToFileURL } from 'node:url'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { type Ask, Bench, type Reply } from '../support/http/bench.ts'
import { TRANSPORTS_AND_NODES, viaFetch } from '../support/http/transports.ts'
import { checkEveryReply, checkProblem } from './rows/row.ts'

const cells = '/v1/databases'
const cell = '/v1/databases/{cell}'
const DAY_MS = 24 * 60 * 60 * 1_000

/** What takes more than one request to see. */
describe.each(TRANSPORTS_AND_NODES)('through %s', (_name, transport) => {
  let bench: Bench
  beforeEach(async () => {
    bench = await Bench.open(transport)
  })
  afterEach(() => bench.close())

  async function send(ask: Ask): Promise<Reply> {
    const reply = await bench.send(ask)
    checkEveryReply(reply, bench, ask)
    return reply
  }
  const json = async (ask: Ask) => (await send(ask)).json as Record<string, unknown>
  const sql = (text: string, params: unknown[] = []) =>
    json({ method: 'POST', path: `${cell}/sql`, body: { sql: text, params } })
  const put = (key: string, body: object) => send({ method: 'PUT', path: `${cell}/kv/${key}`, body })
  const get = (key: string) => send({ method: 'GET', path: `${cell}/kv/${key}` })

  describe('a key', () => {
    test('works from its creation to its revocation, and not once more', async () => {
      const { id, key, hint } = (await json({
        method: 'POST',
        path: '/v1/api-keys',
        body: { name: 'x' },
      })) as Record<string, string>
      const own: Ask = { method: 'GET', path: '/v1/api-keys', key: key ?? '' }
      expect((await send(own)).status).toBe(200)
      expect(hint).toBe(key?.slice(0, 12))

      bench.clock.step(5_000)
      const revoked = { id, revoked: true, revoked_at: '2026-11-21T02:02:18.123Z' }
      expect(await json({ method: 'DELETE', path: `/v1/api-keys/${id}` })).toEqual(revoked)
      checkProblem(await send(own), 401, { code: 'unauthorized' })

      bench.clock.step(5_000)
      expect(await json({ method: 'DELETE', path: `/v1/api-keys/${id}` })).toEqual(revoked)
      expect(JSON.stringify(await json({ method: 'GET', path: '/v1/api-keys' }))).not.toContain(id)
    })

    test('can revoke itself', async () => {
      const { id, key } = (await json({ method: 'POST', path: '/v1/api-keys' })) as Record<string, string>
      const ask = { method: 'DELETE', path: `/v1/api-keys/${id}`, key: key ?? '' }
      expect((await send(ask)).status).toBe(200)
      checkProblem(await send(ask), 401, { code: 'unauthorized' })
    })

    test('shows when it was last used', async () => {
      const [key] = (await json({ method: 'GET', path: '/v1/api-keys' })) as unknown as Record<
        string,
        unknown
      >[]
      expect(key?.['last_used_at']).toBe('2026-11-21T02:02:13.123Z')
    })
  })

  describe('Idempotency-Key', () => {
    const create = (headers: Record<string, string>, raw = '{"name":"a","n":1}', key?: string): Ask => ({
      method: 'POST',
      path: cells,
      raw,
      headers,
      ...(key === undefined ? {} : { key }),
    })

    test('gives the first answer again, and makes nothing', async () => {
      const first = await send(create({ 'idempotency-key': 'once' }))
      expect(first.headers.has('idempotent-replayed')).toBe(false)
      const count = bench.store.cells({ accountId: bench.accountId }).cells.length
      bench.clock.step(1_000)
      for (const [header, raw] of [
        ['once', '{"name":"a","n":1}'],
        ['"once"', '{"name":"a","n":1}'],
        ['once', ' { "n" : 1, "\\u006eame": "a" } '],
      ] as const) {
        const again = await send(create({ 'idempotency-key': header }, raw))
        expect({ status: again.status, text: again.text }).toEqual({ status: 201, text: first.text })
        expect(again.headers.get('idempotent-replayed')).toBe('true')
        expect(again.headers.get('location')).toBe(first.headers.get('location'))
      }
      expect(bench.store.cells({ accountId: bench.accountId }).cells).toHaveLength(count)
    })

    test('is of one account', async () => {
      const first = await send(create({ 'idempotency-key': 'once' }))
      const other = await send(create({ 'idempotency-key': 'once' }, '{"name":"b"}', bench.strangerKey))
      expect(other.status).toBe(201)
      expect(other.json).not.toMatchObject({ id: (first.json as { id: string }).id })
    })

    test('is of a request that succeeded', async () => {
      expect((await send(create({ 'idempotency-key': 'once' }, '{"name":5}'))).status).toBe(400)
      expect((await send(create({ 'idempotency-key': 'once' }))).status).toBe(201)
    })

    test('tells integers apart that a double does not', async () => {
      await send(create({ 'idempotency-key': 'once' }, '{"n":9007199254740993}'))
      const other = await send(create({ 'idempotency-key': 'once' }, '{"n":9007199254740992}'))
      checkProblem(other, 422, { code: 'idempotency_key_reused' })
    })

    test('is kept for 24 hours', async () => {
      const id = async () => (await json(create({ 'idempotency-key': 'once' })))['id']
      const first = await id()
      bench.clock.step(DAY_MS - 1)
      expect(await id()).toBe(first)
      bench.clock.step(1)
      expect(await id()).not.toBe(first)
    })

    test('gives its answer also for a cell that was deleted since', async () => {
      const first = await send(create({ 'idempotency-key': 'once' }))
      await send({ method: 'DELETE', path: `${cells}/${(first.json as { id: string }).id}` })
      expect((await send(create({ 'idempotency-key': 'once' }))).text).toBe(first.text)
    })

    test('gives its answer, with the name of then, also for a cell that was renamed since', async () => {
      const first = await send(create({ 'idempotency-key': 'once' }))
      const path = `${cells}/${(first.json as { id: string }).id}`
      for (const name of ['b', null]) {
        expect((await send({ method: 'PATCH', path, body: { name } })).status).toBe(200)
        expect((await send(create({ 'idempotency-key': 'once' }))).text).toBe(first.text)
      }
      // The name is free: another request makes another cell of it.
      expect((await send(create({ 'idempotency-key': 'again' }))).status).toBe(201)
      expect((await send(create({ 'idempotency-key': 'once' }))).text).toBe(first.text)
    })

    test('gives the answer of a cell without a name also after it was given one', async () => {
      const first = await send(create({ 'idempotency-key': 'once' }, '{}'))
      const path = `${cells}/${(first.json as { id: string }).id}`
      await send({ method: 'PATCH', path, body: { name: 'later' } })
      expect((await send(create({ 'idempotency-key': 'once' }, '{}'))).text).toBe(first.text)
    })
  })

  test('a listing of cells, page by page, has the account’s own, each once', async () => {
    const made = [bench.cell, ...Array.from({ length: 6 }, () => bench.newCell())]
    bench.newCell(bench.strangerId)
    const seen: string[] = []
    for (let cursor: unknown = ''; cursor !== null; ) {
      const query = cursor === '' ? '' : `&cursor=${String(cursor)}`
      const page = await json({ method: 'GET', path: `${cells}?limit=3${query}` })
      seen.push(...(page['databases'] as { id: string }[]).map(({ id }) => id))
      cursor = page['next_cursor']
    }
    expect(seen).toEqual(made)
  })

  describe('KV', () => {
    test('an expired entry is nowhere, from its very millisecond on', async () => {
      await put('k', { value: '41', ttl_seconds: 10 })
      bench.clock.step(9_999)
      expect(await get('k')).toMatchObject({ status: 200, json: { ttl_seconds: 1 } })
      bench.clock.step(1)
      checkProblem(await get('k'), 404, { code: 'key_not_found' })
      const op = (name: string, body: unknown) =>
        json({ method: 'POST', path: `${cell}/kv/ops/${name}`, body })
      expect(await op('ttl', { keys: ['k'] })).toEqual([null])
      expect(await op('mget', { keys: ['k'] })).toEqual({ entries: [null] })
      expect(await op('expire', { key: 'k' })).toEqual({
        key: 'k',
        updated: false,
        version: null,
        ttl_seconds: null,
      })
      expect(await op('delete', { keys: ['k'] })).toEqual({ deleted: 0 })
      expect(await json({ method: 'GET', path: `${cell}/kv` })).toEqual({ entries: [], next_cursor: null })
      expect(await sql('SELECT count(*) AS n FROM cell_kv')).toMatchObject({ rows: [{ n: 0 }] })
      await put('k', { value: '41', ttl_seconds: 10 })
      bench.clock.step(10_000)
      expect(await op('incr', { key: 'k' })).toMatchObject({ key: 'k', value: 1, ttl_seconds: -1 })
    })

    test('a listing with large values goes on where it was cut, in both directions', async () => {
      const value = 'v'.repeat(1_000_000)
      const keys = Array.from({ length: 24 }, (_, i) => `k${String(i).padStart(2, '0')}`)
      for (const key of keys) await put(key, { value })
      for (const [query, expected] of [
        ['', keys],
        ['&reverse', keys.toReversed()],
      ] as const) {
        const pages: string[][] = []
        for (let cursor: unknown = ''; cursor !== null; ) {
          const from = cursor === '' ? '' : `&cursor=${String(cursor)}`
          const page = await json({ method: 'GET', path: `${cell}/kv?limit=100&values${query}${from}` })
          pages.push((page['entries'] as { key: string }[]).map(({ key }) => key))
          cursor = page['next_cursor']
        }
        expect(pages.map((page) => page.length)).toEqual([10, 10, 4])
        expect(pages.flat()).toEqual(expected)
      }
    })
  })

  test('a result that is too large undoes the change that returned it', async () => {
    await sql('CREATE TABLE t (a)')
    const big =
      'INSERT INTO t WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 10001) SELECT i FROM n'
    expect(await sql(`${big} RETURNING a`)).toMatchObject({ code: 'result_too_large' })
    expect(await sql(`${big.replace('10001', '10000')} RETURNING a AS "${'n'.repeat(2_000)}"`)).toMatchObject(
      {
        code: 'result_too_large',
      },
    )
    expect(await sql('SELECT count(*) AS n FROM t')).toMatchObject({ rows: [{ n: 0 }] })
  })

  describe('backups', () => {
    const backUp = (kind = '') => json({ method: 'POST', path: `${cell}/backup${kind}` })
    const restore = (body = {}) => send({ method: 'POST', path: `${cell}/restore`, body })

    test('bring a deleted cell back, and only by its account', async () => {
      await put('k', { value: 'v' })
      await backUp()
      const before = await json({ method: 'GET', path: cell })
      await send({ method: 'DELETE', path: cell })
      checkProblem(await get('k'), 404, { code: 'cell_not_found' })
      checkProblem(await send({ method: 'POST', path: `${cell}/backup` }), 404, { code: 'cell_not_found' })
      expect((await restore()).status).toBe(200)
      expect((await get('k')).json).toMatchObject({ value: 'v' })
      const { id, name, created_at } = before
      expect(await json({ method: 'GET', path: cell })).toMatchObject({ id, name, created_at })
    })

    test('are listed page by page, newest first', async () => {
      const made: unknown[] = []
      for (let i = 0; i < 5; i++) {
        await put('k', { value: String(i) })
        made.unshift((await backUp(i === 0 ? '' : '/incr'))['version'])
      }
      const seen: unknown[] = []
      for (let cursor: unknown = ''; cursor !== null; ) {
        const from = cursor === '' ? '' : `&cursor=${String(cursor)}`
        const page = await json({ method: 'GET', path: `${cell}/backups?limit=2${from}` })
        seen.push(...(page['backups'] as { version: string }[]).map(({ version }) => version))
        cursor = page['next_cursor']
      }
      expect(seen).toEqual(made)
    })

    test('a damaged one leaves the cell as it was', async () => {
      await put('k', { value: '1' })
      await backUp()
      await put('k', { value: '2' })
      const [name = ''] = fs.readdirSync(bench.backupDirectory)
      fs.truncateSync(path.join(bench.backupDirectory, name), 100)
      checkProblem(await restore(), 422, {
        code: 'backup_corrupt',
        member: expect.any(String),
        version: expect.any(String),
      })
      expect((await get('k')).json).toMatchObject({ value: '2' })
    })

    test('the cell serves while its backup is restored', async () => {
      await put('k', { value: '1' })
      await backUp()
      await put('k', { value: '2' })
      bench.objectStore.hold()
      const restored = restore()
      expect((await get('k')).json).toMatchObject({ value: '2' })
      bench.objectStore.open()
      expect((await restored).status).toBe(200)
      expect((await get('k')).json).toMatchObject({ value: '1' })
    })

    test('the reads of a cell go on while the object store is down', async () => {
      await put('k', { value: '1' })
      bench.objectStore.failure = 'object_store_unavailable'
      expect((await get('k')).status).toBe(200)
      expect((await put('k', { value: '2' })).status).toBe(200)
      expect((await send({ method: 'POST', path: cells })).status).toBe(201)
    })
  })
})

/** A catalog that came back from a backup made before the cell: the cell is known by its own backup alone. */
test.each([
  ['at the end', {}, 200],
  ['at once', { prefer: 'respond-async' }, 202],
])(
  'a cell that the catalog does not know is its account’s by its manifest, and to others as absent as any: restores answered %s',
  async (_when, headers, status) => {
    const bench = await Bench.open(viaFetch)
    await bench.store.core.catalogStored()
    const catalogBackups = path.join(bench.directory, 'objects', 'snapshots', bench.store.id)
    const kept = new Set(fs.readdirSync(catalogBackups))
    bench.newCell()
    await bench.send({ method: 'PUT', path: `${cell}/kv/k`, body: { value: 'v' } })
    await bench.send({ method: 'POST', path: `${cell}/backup` })
    await bench.store.close()
    for (const name of fs.readdirSync(catalogBackups)) {
      if (!kept.has(name)) fs.rmSync(path.join(catalogBackups, name))
    }
    fs.rmSync(bench.data.path, { recursive: true })
    const objectStore = pathToFileURL(path.join(bench.directory, 'objects')).href
    const store = await bench.data.open({ objectStore })
    await bench.serve(store, viaFetch)

    checkProblem(await bench.send({ method: 'GET', path: cell }), 404, { code: 'cell_not_found' })
    for (const ask of [
      { method: 'GET', path: `${cell}/backups` },
      { method: 'GET', path: `${cell}/backups?cursor=x` },
      { method: 'POST', path: `${cell}/restore`, headers, body: {} },
      { method: 'POST', path: `${cell}/restore`, headers, body: { version: 'x' } },
    ]) {
      checkProblem(await bench.send({ ...ask, key: bench.strangerKey }), 404, { code: 'cell_not_found' })
    }
    expect((await bench.send({ method: 'GET', path: `${cell}/backups` })).json).toMatchObject({
      backups: [{ kind: 'snapshot' }],
    })
    const restored = await bench.send({ method: 'POST', path: `${cell}/restore`, headers })
    expect(restored.status).toBe(status)
    const location = restored.headers.get('location')
    const state = async () =>
      ((await bench.send({ method: 'GET', path: location ?? '' })).json as { state: string }).state
    while (location !== null && (await state()) === 'running') await setImmediate()
    expect((await bench.send({ method: 'GET', path: `${cell}/kv/k` })).json).toMatchObject({ value: 'v' })
    await bench.close()
  },
)
