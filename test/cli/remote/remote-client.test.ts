import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import http, { type RequestListener } from 'node:http'
import type { AddressInfo } from 'node:net'
import { describe, expect, onTestFinished, test } from 'vitest'
import { makeApiKey } from '../../../src/auth/api-key.ts'
import { systemClock } from '../../../src/base/clock.ts'
import { RemoteClient } from '../../../src/cli/remote/remote-client.ts'
import { createListener } from '../../../src/http/server/node-listener.ts'
import { temporaryStore } from '../../../src/testing/index.ts'
import { rejectedBy } from '../../support/thrown.ts'

async function listen(listener: RequestListener): Promise<string> {
  const server = http.createServer(listener).listen(0, '127.0.0.1')
  await once(server, 'listening')
  onTestFinished(async () => {
    server.closeAllConnections()
    await new Promise((resolve) => server.close(resolve))
  })
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}

const clientOf = (baseUrl: string, apiKey = makeApiKey(randomBytes)) =>
  new RemoteClient({ baseUrl, apiKey }, systemClock)

async function storeWithClient(options: Parameters<typeof temporaryStore>[0] = {}) {
  const { store, close } = await temporaryStore(options)
  onTestFinished(() => close())
  const account = store.accounts.create().id
  const url = await listen(createListener(store))
  return { store, account, url, client: clientOf(url, store.apiKeys.create(account).key) }
}

describe('the client of a remote node', () => {
  const statements = (cell: string, ...texts: string[]) => ({
    cell,
    operations: texts.map((sql) => ({ sql })),
  })

  test('binds parameters of every kind, runs a batch as one, and nothing once it is given up', async () => {
    const { client } = await storeWithClient()
    const cell = (await client.createCell({ name: 'acme' })).id
    const params = [
      { type: 'integer', value: '9223372036854775807' },
      { type: 'real', value: 1 },
      null,
      'line\nbreak \u0000 ✓',
      { type: 'blob', base64: 'AAE=' },
    ]
    const sql = 'SELECT ? AS a, typeof(?) AS b, ? AS c, ? AS d, ? AS e'
    expect((await client.sql({ cell, sql, params })).rows).toEqual([
      { a: '9223372036854775807', b: 'real', c: null, d: params[3], e: params[4] },
    ])
    expect((await client.sql({ cell, sql: 'SELECT :a AS a', params: { a: 1 } })).rows).toEqual([{ a: 1 }])
    await client.batch(statements(cell, 'CREATE TABLE t (a)', 'INSERT INTO t VALUES (1)'))
    const failed = client.batch(statements(cell, 'DELETE FROM t', 'SELECT b FROM t'))
    expect(await rejectedBy(failed)).toMatchObject({ code: 'sql_error', details: { index: 1 } })
    const signal = AbortSignal.abort()
    await expect(client.sql({ cell, sql: 'DROP TABLE t' }, { signal })).rejects.toThrow()
    expect((await client.sql({ cell, sql: 'SELECT a FROM t' })).rows).toEqual([{ a: 1 }])
  })

  test('makes and revokes keys, and deletes cells', async () => {
    const { client } = await storeWithClient()
    const { id, key, ...made } = await client.createKey({ name: 'laptop' })
    expect(await client.listKeys({})).toContainEqual({ ...made, id, last_used_at: null })
    expect(key).toMatch(/^cell_sk_/)
    expect(await client.revokeKey({ id })).toMatchObject({ id, revoked: true })
    expect((await client.listKeys({})).map((each) => each.id)).not.toContain(id)
    const cell = (await client.createCell({ name: 'acme' })).id
    expect(await client.deleteCell({ cell })).toEqual({ id: cell, deleted: true })
    const ask = client.sql({ cell, sql: 'SELECT 1' })
    expect(await rejectedBy(ask)).toMatchObject({ code: 'cell_not_found' })
  })

  test('lists more keys and cells than a page holds, and only those of its account', async () => {
    const { store, account, client } = await storeWithClient({ limits: { pageMax: 3 } })
    store.createCell({ accountId: store.accounts.create().id })
    for (let i = 0; i < 4; i++) store.createCell({ accountId: account })
    const first = await client.listCells({})
    const rest = await client.listCells({ cursor: first.next_cursor as string })
    expect([first.databases.length, rest.databases.length, rest.next_cursor]).toEqual([3, 1, null])
    for (let i = 0; i < 6; i++) store.apiKeys.create(account)
    const keys = await client.listKeys({})
    expect(new Set(keys.map(({ id }) => id)).size).toBe(7)
  })

  test('shows how far a restore is, and says why one failed', async () => {
    const { store, account, client } = await storeWithClient()
    const cell = store.createCell({ accountId: account }).id
    await client.sql({ cell, sql: 'CREATE TABLE t AS SELECT ? AS a', params: [1.5] })
    const { version } = await client.backup({ cell, kind: 'snapshot' })
    await client.sql({ cell, sql: 'DROP TABLE t' })
    expect(await client.restore({ cell, version })).toMatchObject({ restored: true, version })
    expect((await client.sql({ cell, sql: 'SELECT a FROM t' })).rows).toEqual([{ a: 1.5 }])
    const missing = version.replace(/\d{4}/, '2001')
    expect(await rejectedBy(client.restore({ cell, version: missing }))).toMatchObject({
      code: 'backup_not_found',
    })
  })

  test('refuses what only the owner can do, with what to do', async () => {
    const { client, account } = await storeWithClient()
    for (const refused of [
      client.createKey({ newAccount: true }),
      client.createKey({ account }),
      client.createCell({ account }),
      client.listCells({ account }),
      client.listKeys({ account }),
    ]) {
      expect(await rejectedBy(refused)).toMatchObject({
        code: 'invalid_setting',
        message: expect.stringMatching(
          /leave out --(new-)?account, or run the command on the node's machine/,
        ),
      })
    }
  })

  test('says that a key is not taken, that an id is none, and that a cell belongs to another', async () => {
    const { store, url, client } = await storeWithClient()
    expect(await rejectedBy(clientOf(url).listCells({}))).toMatchObject({
      code: 'unauthorized',
      message: expect.stringContaining('revoked'),
    })
    const other = store.createCell({ accountId: store.accounts.create().id }).id
    for (const cell of [other, 'no-id', '/'])
      expect(await rejectedBy(client.sql({ cell, sql: 'SELECT 1' }))).toMatchObject({
        code: 'cell_not_found',
      })
    for (const cell of ['', '..', '\ud800'])
      expect(await rejectedBy(client.sql({ cell, sql: 'SELECT 1' }))).toMatchObject({
        code: 'invalid_request',
      })
  })
})

describe('what answers in the place of a node', () => {
  const asked = async (listener: RequestListener) =>
    rejectedBy(clientOf(await listen(listener)).listCells({}))

  test.each([301, 302, 303, 307, 308])('never gets the key through a redirect: %i', async (status) => {
    let followed = 0
    const elsewhere = await listen((_, response) => {
      followed++
      response.end('{}')
    })
    const error = await asked((_, response) => response.writeHead(status, { location: elsewhere }).end())
    expect(error).toMatchObject({ code: 'invalid_setting', message: expect.stringContaining(elsewhere) })
    expect(followed).toBe(0)
  })

  test.each([
    ['a page', 200, '<html>\u001b[2J'],
    ['an error page', 502, '<html>\u001b[2J'],
  ])('is no node if it answers with %s', async (_, status, body) => {
    const error = await asked((_, response) => response.writeHead(status).end(body))
    expect(error).toMatchObject({ code: 'node_unreachable', message: expect.stringContaining('no node') })
    expect(String(error.cause)).not.toContain('\u001b')
  })

  test('is another version, or something else, if it does not know the route', async () => {
    const { store, close } = await temporaryStore()
    onTestFinished(() => close())
    const { key } = store.apiKeys.create(store.accounts.create().id)
    const url = await listen(createListener(store))
    expect(await rejectedBy(clientOf(`${url}/cells`, key).listCells({}))).toMatchObject({
      code: 'invalid_request',
      message: expect.stringContaining('the URL is not where it serves'),
    })
  })

  test('may be nobody: nothing was changed', async () => {
    const server = http.createServer().listen(0, '127.0.0.1')
    await once(server, 'listening')
    const { port } = server.address() as AddressInfo
    await new Promise((resolve) => server.close(resolve))
    expect(await rejectedBy(clientOf(`http://127.0.0.1:${port}`).listCells({}))).toMatchObject({
      code: 'node_unreachable',
      message: expect.stringContaining('Nothing was changed'),
    })
    expect(await rejectedBy(clientOf('http://127.0.0.1:6000').listCells({}))).toMatchObject({
      message: expect.stringContaining('Nothing was changed'),
    })
  })

  test('may break off: the command may have run', async () => {
    const error = await asked((request) => request.socket.destroy())
    expect(error).toMatchObject({
      code: 'node_unreachable',
      message: expect.stringContaining('may have run or not'),
    })
  })
})
