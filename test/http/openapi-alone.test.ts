import http from 'node:http'
import type { AddressInfo } from 'node:net'
import { expect, onTestFinished, test } from 'vitest'
import { createListener } from '../../src/http/server/node-listener.ts'
import { temporaryStore } from '../../src/testing/index.ts'
import { DocumentClient } from '../support/http/document-client.ts'

test('A client written from /openapi.json alone creates a cell, puts, gets, queries, backs up and restores', async () => {
  const { store, close } = await temporaryStore()
  const server = http.createServer(createListener(store))
  onTestFinished(async () => {
    await new Promise((resolve) => server.close(resolve).closeAllConnections())
    await close()
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  const { key } = store.apiKeys.create(store.accounts.create().id)

  const client = await DocumentClient.read(`http://127.0.0.1:${port}`, key)
  expect(await client.call('readyz')).toMatchObject({ status: 'ready' })
  const { id } = await client.call('createCell', { name: 'acme' })

  await client.call('kvPut', { id, key: 'a/b', value: 'v', ttl_seconds: 60 })
  expect(await client.call('kvGet', { id, key: 'a/b' })).toMatchObject({ value: 'v' })
  expect(await client.call('kvList', { id, prefix: 'a', values: true })).toMatchObject({
    entries: [{ value: 'v' }],
  })

  await client.call('sql', { id, sql: 'CREATE TABLE t (n)' })
  await client.call('sql', { id, sql: 'INSERT INTO t VALUES (?)', params: [7] })
  expect(await client.call('sql', { id, sql: 'SELECT n FROM t' })).toMatchObject({ rows: [{ n: 7 }] })

  const { version } = await client.call('backup', { id })
  await client.call('sql', { id, sql: 'DELETE FROM t' })
  await client.call('kvDelete', { id, key: 'a/b' })
  expect(await client.call('listBackups', { id })).toMatchObject({ backups: [{ version }] })
  await client.call('restore', { id, version })
  expect(await client.call('sql', { id, sql: 'SELECT n FROM t' })).toMatchObject({ rows: [{ n: 7 }] })
  expect(await client.call('kvGet', { id, key: 'a/b' })).toMatchObject({ value: 'v' })
})
