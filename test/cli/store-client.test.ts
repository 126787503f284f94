import { once } from 'node:events'
import http from 'node:http'
import type { AddressInfo } from 'node:net'
import path from 'node:path'
import { pathToFileURL } from 'node:url'
import { beforeEach, describe, expect, onTestFinished, test } from 'vitest'
import { systemClock } from '../../src/base/clock.ts'
import { silentLog } from '../../src/base/log.ts'
import { ownerClient, type Transport } from '../../src/cli/owner/owner-client.ts'
import { serveOwner } from '../../src/cli/owner/owner-server.ts'
import { takeSocketPlace } from '../../src/cli/owner/socket-place.ts'
import { connectSocket } from '../../src/cli/owner/socket-transport.ts'
import { storeTransport } from '../../src/cli/owner/store-transport.ts'
import { RemoteClient } from '../../src/cli/remote/remote-client.ts'
import type { StoreClient } from '../../src/cli/store-client.ts'
import { createListener } from '../../src/http/server/node-listener.ts'
import { InProcessService } from '../../src/service/in-process-service.ts'
import type { CellStore } from '../../src/store/cell-store.ts'
import { BOUNDS } from '../support/request-bounds.ts'
import { StoreDirectory } from '../support/store-directory.ts'
import { tempDirectory } from '../support/temp-directory.ts'
import { rejectedBy } from '../support/thrown.ts'

const UNKNOWN = '00000000-0000-4000-8000-000000000000'

interface OpenStore {
  store: CellStore
  data: StoreDirectory
  /** Of the only account. */
  key: string
}

/** The ways to reach a store: commands do not know which it is. */
const WAYS: Record<string, (open: OpenStore) => Promise<StoreClient>> = {
  'a store that is open in this process': async ({ store }) =>
    ownerClient(storeTransport(store), systemClock),

  "a node's socket": async ({ store, data }) => {
    const service = new InProcessService(store, { restoreWaitMs: 20_000, bounds: BOUNDS })
    const server = await serveOwner(store, takeSocketPlace(data.paths), { service, logger: silentLog })
    onTestFinished(() => server.stop({ drainMs: 0 }))
    return ownerClient((await connectSocket(server.path)) as Transport, systemClock)
  },

  'a remote node': async ({ store, key }) => {
    const server = http.createServer(createListener(store)).listen(0, '127.0.0.1')
    await once(server, 'listening')
    onTestFinished(async () => {
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
    })
    const baseUrl = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
    return new RemoteClient({ baseUrl, apiKey: key }, systemClock)
  },
}

describe.each(Object.keys(WAYS))('a command that reaches %s', (way) => {
  let client: StoreClient
  let cell: string

  beforeEach(async () => {
    const folder = tempDirectory()
    const data = StoreDirectory.ofTest(path.join(folder, 'data'))
    const store = await data.create({ objectStore: pathToFileURL(path.join(folder, 'objects')).href })
    const { key } = store.apiKeys.create(store.accounts.create().id)
    client = await (WAYS[way] as (typeof WAYS)[string])({ store, data, key })
    cell = (await client.createCell({ name: 'acme' })).id
  })

  test('binds parameters of every kind, by place and by name, and loses nothing on the way', async () => {
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
  })

  test('runs a batch as one: all of it, or nothing and the index of what failed', async () => {
    const statements = (...texts: string[]) => ({ cell, operations: texts.map((sql) => ({ sql })) })
    const results = await client.batch(statements('CREATE TABLE t (a)', 'INSERT INTO t VALUES (1)'))
    expect(results).toMatchObject([{ columns: [] }, { changes: 1 }])
    const failed = client.batch(statements('DELETE FROM t', 'SELECT b FROM t'))
    expect(await rejectedBy(failed)).toMatchObject({ code: 'sql_error', details: { index: 1 } })
    expect((await client.sql({ cell, sql: 'SELECT a FROM t' })).rows).toEqual([{ a: 1 }])
  })

  test('runs nothing once it is given up', async () => {
    const signal = AbortSignal.abort()
    await expect(client.sql({ cell, sql: 'CREATE TABLE t (a)' }, { signal })).rejects.toThrow()
    expect(await rejectedBy(client.sql({ cell, sql: 'SELECT * FROM t' }))).toMatchObject({
      code: 'sql_error',
    })
  })

  test('lists and deletes cells, and knows only those that are there', async () => {
    expect((await client.listCells({})).databases).toMatchObject([{ id: cell, name: 'acme' }])
    expect(await client.deleteCell({ cell })).toEqual({ id: cell, deleted: true })
    expect((await client.listCells({})).databases).toEqual([])
    for (const id of [cell, UNKNOWN, 'x'])
      expect(await rejectedBy(client.sql({ cell: id, sql: 'SELECT 1' }))).toMatchObject({
        code: 'cell_not_found',
      })
  })

  test('makes, lists and revokes keys', async () => {
    const { id, key, ...made } = await client.createKey({ name: 'laptop' })
    expect(await client.listKeys({})).toContainEqual({ ...made, id, last_used_at: null })
    expect(key).toMatch(/^cell_sk_/)
    expect(await client.revokeKey({ id })).toMatchObject({ id, revoked: true })
    expect((await client.listKeys({})).map((each) => each.id)).not.toContain(id)
    expect(await rejectedBy(client.revokeKey({ id: UNKNOWN }))).toMatchObject({ code: 'api_key_not_found' })
  })

  test('backs a cell up, lists its backups and restores it', async () => {
    await client.sql({ cell, sql: 'CREATE TABLE t AS SELECT 1 AS a' })
    const { version } = await client.backup({ cell, kind: 'snapshot' })
    await client.sql({ cell, sql: 'DROP TABLE t' })
    const newest = await client.backup({ cell, kind: 'incremental' })
    expect((await client.listBackups({ cell })).backups).toMatchObject(
      [newest, { version }].map((each) => ({ version: each.version })),
    )
    expect(await client.restore({ cell, version })).toMatchObject({ restored: true, version })
    expect((await client.sql({ cell, sql: 'SELECT a FROM t' })).rows).toEqual([{ a: 1 }])
    const missing = version.replace(/\d{4}(?=\d{4}T)/, '2001')
    expect(await rejectedBy(client.restore({ cell, version: missing }))).toMatchObject({
      code: 'backup_not_found',
    })
  })
})
