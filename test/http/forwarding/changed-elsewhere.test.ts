import { randomBytes } from 'node:crypto'
import { beforeEach, describe, expect, test } from 'vitest'
import { makeApiKey } from '../../../src/auth/api-key.ts'
import { askNode, type Got, type Sent } from '../../support/http/ask-node.ts'
import { Bench } from '../../support/http/bench.ts'
import { ScriptedPeers } from '../../support/http/scripted-peers.ts'
import { viaFetch } from '../../support/http/transports.ts'

const bench = Bench.perTest(viaFetch)
let owner: ScriptedPeers
let front: ScriptedPeers
let port: number

/** Two nodes with one catalog: the first has all cells, the second is asked. */
beforeEach(async () => {
  bench.newCell()
  owner = new ScriptedPeers('6a1f4d1e-0000-4000-8000-00000000000a')
  front = new ScriptedPeers('6a1f4d1e-0000-4000-8000-00000000000b')
  await serve(owner)
  port = await serve(front)
  front.give(owner.self)
})

async function serve(cluster: ScriptedPeers): Promise<number> {
  const { port } = await bench.listen({ cluster })
  cluster.self.address = `http://127.0.0.1:${port}`
  return port
}

function ask(path: string, { at = port, headers, ...sent }: Sent & { at?: number } = {}): Promise<Got> {
  return askNode(at, bench.fill(path), { ...sent, headers: { 'x-api-key': bench.key, ...headers } })
}

const KEY = '/v1/databases/{cell}/kv/k'

describe('what was made at another node just now', () => {
  test('an unknown key is asked for before it is refused', async () => {
    const at = await serve(owner)
    let key = ''
    owner.news = () => {
      key = bench.store.apiKeys.create(bench.accountId).key
    }
    await ask(KEY, { at, headers: { 'x-api-key': 'cell_sk_unknown' } })
    expect(key).not.toBe('')
    expect(owner.catchUps).toBe(1)
  })

  test('a key that comes into the catalog while its request is refused is admitted', async () => {
    const at = await serve(owner)
    const key = makeApiKey(randomBytes)
    const catchUp = owner.catchUp.bind(owner)
    owner.catchUp = async (since) => {
      // As a beat brings it, after the key was looked up.
      bench.store.apiKeys.create(bench.accountId, { key })
      owner.catalogVersion++
      return await catchUp(since)
    }
    expect((await ask(KEY, { at, headers: { 'x-api-key': key } })).status).toBe(404)
  })

  test('a key that may have been made there while PostgreSQL is away is not called bad; one that is bad is', async () => {
    const unknown = makeApiKey(randomBytes)
    const { id, key: revoked } = bench.store.apiKeys.create(bench.accountId)
    bench.store.apiKeys.revoke(bench.accountId, id)
    const mistyped = `${unknown.slice(0, -1)}${unknown.endsWith('a') ? 'b' : 'a'}`
    const at = await serve(owner)
    const asked = async (key: string, at: number) => await ask(KEY, { at, headers: { 'x-api-key': key } })
    for (const node of [at, port]) expect((await asked(unknown, node)).status).toBe(401)
    for (const peers of [owner, front]) peers.lacksChanges = true
    for (const node of [at, port]) {
      const got = await asked(unknown, node)
      expect(got).toMatchObject({ status: 503, json: { code: 'cluster_unavailable' } })
      expect(got.headers['retry-after']).toBe('5')
      for (const bad of [revoked, mistyped, 'cell_sk_unknown'])
        expect((await asked(bad, node)).status).toBe(401)
    }
  })

  test('a cell that is not known is asked for before it is refused', async () => {
    const at = await serve(owner)
    const { id } = bench.store.createCell({ accountId: bench.accountId })
    bench.store.deleteCell(id)
    owner.news = () => bench.store.createCell({ accountId: bench.accountId, name: 'late' })
    const body = JSON.stringify({ baton: null, requests: [{ type: 'close' }] })
    expect((await ask('/v1/databases/late/v3/pipeline', { method: 'POST', body, at })).status).toBe(200)
    expect(owner.catchUps).toBe(1)
  })

  test('a cell that may have been made there while PostgreSQL is away is not called missing', async () => {
    const at = await serve(owner)
    const unknown = '/v1/databases/5f5e3f1e-0000-4000-8000-00000000000c'
    expect((await ask(unknown, { at })).status).toBe(404)
    owner.lacksChanges = true
    const got = await ask(unknown, { at })
    expect(got).toMatchObject({ status: 503, json: { code: 'cluster_unavailable' } })
    expect(got.headers['retry-after']).toBe('5')
  })

  test('a catch-up that brought something else leaves open what PostgreSQL has, and so does one that comes with a cell', async () => {
    const at = await serve(owner)
    const unknown = '/v1/databases/5f5e3f1e-0000-4000-8000-00000000000c'
    const asked = async (key?: string) =>
      await ask(unknown, key === undefined ? { at } : { at, headers: { 'x-api-key': key } })
    const away = { status: 503, json: { code: 'cluster_unavailable' } }
    owner.lacksChanges = true
    owner.news = () => {}
    expect(await asked()).toMatchObject(away)
    owner.news = () => {}
    expect(await asked(makeApiKey(randomBytes))).toMatchObject(away)
    front.lacksChanges = true
    front.news = () => {}
    expect(await ask(KEY, { headers: { 'x-api-key': makeApiKey(randomBytes) } })).toMatchObject(away)
  })

  test('a cell that comes here before the catalog knows of it is asked for there', async () => {
    const at = await serve(owner)
    const { ownerOf } = owner.ownership
    const asked = async () => {
      owner.give('moving')
      const waits = Promise.withResolvers<void>()
      Object.assign(owner.ownership, {
        ownerOf: (cellId: string) => {
          waits.resolve()
          return ownerOf(cellId)
        },
      })
      const got = ask('/v1/databases/5f5e3f1e-0000-4000-8000-00000000000c', { at })
      await waits.promise
      owner.give('here')
      return await got
    }
    expect((await asked()).status).toBe(404)
    expect(owner.catchUps).toBe(1)
    owner.lacksChanges = true
    expect(await asked()).toMatchObject({ status: 503, json: { code: 'cluster_unavailable' } })
  })

  test('a name that was freed there can be taken here', async () => {
    const at = await serve(owner)
    const { id } = bench.store.createCell({ accountId: bench.accountId, name: 'acme' })
    owner.news = () => bench.store.deleteCell(id)
    const got = await ask('/v1/databases', { method: 'POST', body: '{"name":"acme"}', at })
    expect(got).toMatchObject({ status: 201, json: { name: 'acme' } })
    expect((await ask('/v1/databases', { method: 'POST', body: '{"name":"acme"}', at })).status).toBe(409)
  })

  test('the name of an imported database, too', async () => {
    const at = await serve(owner)
    const { bytes: body } = await ask('/v1/databases/{cell}/export')
    const { id } = bench.store.createCell({ accountId: bench.accountId, name: 'acme' })
    owner.news = () => bench.store.deleteCell(id)
    const headers = { 'content-type': 'application/vnd.sqlite3' }
    expect((await ask('/v1/databases?name=acme', { method: 'POST', headers, body, at })).status).toBe(201)
  })

  test('room in a quota that a deletion, or a higher quota, has made there is used here', async () => {
    const at = await serve(owner)
    const { id } = bench.store.createCell({ accountId: bench.accountId })
    const cellsMax = (max: number) => bench.store.accounts.setQuotas(bench.accountId, { cellsMax: max })
    cellsMax(3)
    const create = async () => (await ask('/v1/databases', { method: 'POST', body: '{}', at })).status
    expect(await create()).toBe(403)
    owner.news = () => bench.store.deleteCell(id)
    expect(await create()).toBe(201)
    owner.news = () => cellsMax(4)
    expect(await create()).toBe(201)
    expect(await create()).toBe(403)
  })

  test('an account that was resumed there is served here, and at a node that sends its requests on', async () => {
    const at = await serve(owner)
    bench.store.accounts.suspend(bench.accountId)
    expect((await ask(KEY, { at })).status).toBe(403)
    owner.news = () => bench.store.accounts.resume(bench.accountId)
    expect((await ask(KEY, { at })).status).toBe(404)
    bench.store.accounts.suspend(bench.accountId)
    front.news = () => bench.store.accounts.resume(bench.accountId)
    expect((await ask(KEY)).status).toBe(404)
  })

  test('a list has it', async () => {
    const at = await serve(owner)
    owner.news = () => bench.store.createCell({ accountId: bench.accountId, name: 'late' })
    expect((await ask('/v1/databases?name=late', { at })).json).toMatchObject({
      databases: [{ name: 'late' }],
    })
  })
})
