import fs from 'node:fs'
import path from 'node:path'
import { describe, expect, test } from 'vitest'
import type { RebuiltCluster } from '../../../src/cluster/rebuild/rebuild-cluster.ts'
import { ClusterOfTest, valuesOf } from '../../support/cluster/nodes.ts'
import { hasPostgres } from '../../support/postgres.ts'

const CELLS = 6

/** Gives the nodes a new, empty database, in place of the one that they have used. */
async function loseDatabase(cluster: ClusterOfTest): Promise<void> {
  await cluster.postgres.query('DROP DATABASE IF EXISTS cells WITH (FORCE)', [], 'template1')
  await cluster.postgres.query('CREATE DATABASE cells', [], 'template1')
}

function rebuild(cluster: ClusterOfTest, url: string, ...args: string[]): string[] {
  return [
    'cluster',
    'rebuild',
    '--cluster',
    url,
    '--object-store',
    `file://${cluster.place.objects}`,
    ...args,
  ]
}

async function revokedKey(cluster: ClusterOfTest): Promise<string> {
  const { body } = await cluster.request('a', 'POST', '/v1/api-keys', { name: 'second' })
  const { id, key } = body as { id: string; key: string }
  expect((await cluster.request('a', 'DELETE', `/v1/api-keys/${id}`)).status).toBe(200)
  return key
}

describe.skipIf(!hasPostgres)('PostgreSQL is lost for good', () => {
  test('a rebuild from the bucket brings back cells, names and accounts, and no revoked key', async () => {
    const cluster = await ClusterOfTest.start('cells')
    const ttl = ['--cluster-ttl', '20s']
    for (const name of ['a', 'b', 'c']) await cluster.serve(name, ...ttl)
    await cluster.untilLevel('a')
    const ids = await cluster.cells(CELLS)
    const revoked = await revokedKey(cluster)
    const { catalog_version: before } = await cluster.status('a')

    await loseDatabase(cluster)
    const command = rebuild(cluster, cluster.url)
    expect(await cluster.place.failure(...command)).toMatchObject({ code: 'object_store_in_use' })
    for (const name of ['a', 'b', 'c']) await cluster.node(name).stop()
    const rebuilt = await cluster.place.json<RebuiltCluster>(...command)
    expect(rebuilt.catalog_version).toBeGreaterThanOrEqual(before)
    const again = await cluster.place.failure(...command)
    expect(again).toMatchObject({ code: 'invalid_setting', message: expect.stringContaining('already') })

    await Promise.all(['a', 'b', 'c'].map((name) => cluster.serve(name, ...ttl)))
    const { catalog_version: after, nodes } = await cluster.status('b')
    expect(after).toBeGreaterThanOrEqual(rebuilt.catalog_version)
    expect(nodes).toHaveLength(3)
    for (const name of ['a', 'b', 'c']) {
      expect(await cluster.values(name, ids)).toEqual(valuesOf(CELLS))
      expect((await cluster.request(name, 'GET', '/v1/databases?name=cell-1')).status).toBe(200)
      expect((await cluster.node(name).request('GET', '/v1/databases', undefined, revoked)).status).toBe(401)
    }
    expect((await cluster.request('c', 'POST', '/v1/databases', { name: 'new' })).status).toBe(201)
  })

  test('a revocation that it has lost is not lost if all nodes that knew of it have gone before it came back', async () => {
    const cluster = await ClusterOfTest.start('cells')
    const ttl = ['--cluster-ttl', '4s']
    for (const name of ['a', 'b']) await cluster.serve(name, ...ttl)
    const { body } = await cluster.request('a', 'POST', '/v1/api-keys', { name: 'second' })
    const { id, key } = body as { id: string; key: string }
    const copy = cluster.postgres.copy()
    expect((await cluster.request('a', 'DELETE', `/v1/api-keys/${id}`)).status).toBe(200)
    for (const name of ['a', 'b']) await cluster.node(name).stop()
    await cluster.postgres.putBack(copy)
    await cluster.serve('c', ...ttl)
    expect((await cluster.node('c').request('GET', '/v1/databases', undefined, key)).status).toBe(401)
    expect((await cluster.request('c', 'GET', '/v1/databases')).status).toBe(200)
  })

  test('of several catalogs the one with the most changes counts, also that of a directory', async () => {
    const cluster = await ClusterOfTest.start('cells')
    const { place } = cluster
    await cluster.serve('a')
    await revokedKey(cluster)
    const stored = path.join(place.objects, 'nodes', cluster.id('a'), 'snapshots')
    const copy = path.join(place.folder, 'copy')
    await cluster.node('a').stop()
    fs.cpSync(stored, copy, { recursive: true })
    await cluster.serve('a')
    await revokedKey(cluster)
    const { catalog_version: newest } = await cluster.status('a')
    await cluster.node('a').stop()

    // As if the node's last changes had not reached the bucket.
    fs.rmSync(stored, { recursive: true })
    fs.cpSync(copy, stored, { recursive: true })
    await loseDatabase(cluster)
    const older = await place.json<RebuiltCluster>(...rebuild(cluster, cluster.url))
    expect(older.catalog_version).toBeLessThan(newest)
    expect(older.found_in).toBe(`nodes/${cluster.id('a')}/`)
    await loseDatabase(cluster)
    const own = await place.json<RebuiltCluster>(...rebuild(cluster, cluster.url, '--data-dir', 'a'))
    expect(own.catalog_version).toBeGreaterThanOrEqual(newest)
    expect(own.found_in).toBe(path.join(place.folder, 'a'))
  })

  test('nothing is rebuilt where the bucket has no cluster', async () => {
    const cluster = await ClusterOfTest.start('cells')
    expect(await cluster.place.failure(...rebuild(cluster, cluster.url))).toMatchObject({
      code: 'invalid_setting',
      message: expect.stringContaining('no cluster'),
    })
  })
})
