import fs from 'node:fs'
import path from 'node:path'
import { describe, expect, test } from 'vitest'
import { ClusterOfTest, valuesOf } from '../../support/cluster/nodes.ts'
import { hasPostgres } from '../../support/postgres.ts'
import { until } from '../../support/until.ts'

const CELLS = 12

describe.skipIf(!hasPostgres)('three nodes are one service', () => {
  async function threeNodes(...args: string[]) {
    const cluster = await ClusterOfTest.start()
    for (const name of ['a', 'b', 'c']) await cluster.serve(name, ...args)
    await cluster.untilLevel('a')
    return { cluster, ids: await cluster.cells(CELLS) }
  }

  test('each answers for all cells; what a killed one had answers elsewhere, and so does what a stopped one had', async () => {
    const began = Date.now()
    const { cluster, ids } = await threeNodes()
    for (const name of ['a', 'b', 'c']) expect(await cluster.values(name, ids)).toEqual(valuesOf(CELLS))
    await cluster.untilShipped(ids)

    const c = cluster.id('c')
    for (const id of ids) await cluster.request('a', 'PUT', `/v1/databases/${id}/kv/other`, { value: 'x' })
    await cluster.untilShipped(ids)
    cluster.node('c').child.kill('SIGKILL')
    expect(await cluster.values('a', ids)).toEqual(valuesOf(CELLS))
    const { nodes, taken_over } = await cluster.status('a')
    expect(nodes.map(({ ranges }) => ranges).reduce((a, b) => a + b)).toBe(4_096)
    expect(nodes.some(({ id }) => id === c)).toBe(false)
    expect((await cluster.status('b')).taken_over).toEqual(taken_over)
    expect(taken_over.map(({ node }) => node)).toEqual([c])
    const { lost_from, lost_until } = taken_over[0] as (typeof taken_over)[0]
    const [from, to] = [Date.parse(String(lost_from)), Date.parse(lost_until)]
    expect(from).toBeGreaterThanOrEqual(began)
    expect(from).toBeLessThan(to)

    const [code] = await cluster.node('b').stop()
    expect(code).toBe(0)
    expect(await cluster.rangesOf('a'), cluster.node('b').stderr).toBe(4_096)
    expect(await cluster.values('a', ids)).toEqual(valuesOf(CELLS))

    // What the killed one has is of ended tenures: it comes back as a new node.
    await cluster.serve('c')
    expect(cluster.id('c')).not.toBe(c)
    // What it had stored under its old id says nothing of its new prefix, which would look as if it was emptied.
    const file = path.join(cluster.place.folder, 'c', 'object-store.json')
    const { starts } = JSON.parse(fs.readFileSync(file, 'utf8')) as { starts: Record<string, unknown[]> }
    expect(Object.values(starts).flat()).toHaveLength(1)
    await cluster.untilLevel('a')
    expect(await cluster.values('c', ids)).toEqual(valuesOf(CELLS))
  })

  test('a restart within the time to live keeps the ranges', async () => {
    // A start takes its time on a busy machine.
    const ttl = ['--cluster-ttl', '60s']
    const { cluster, ids } = await threeNodes(...ttl)
    // Otherwise its next start would give some away.
    await cluster.place.text('cluster', 'balance', '--data-dir', 'a')
    const [before, id] = [await cluster.rangesOf('c'), cluster.id('c')]
    const { assignment } = await cluster.status('a')
    cluster.node('c').child.kill('SIGKILL')
    await cluster.node('c').ended
    await cluster.serve('c', ...ttl)
    expect(cluster.id('c')).toBe(id)
    expect(await cluster.rangesOf('c')).toBe(before)
    // Its start has taken a number, and moved nothing.
    expect((await cluster.status('c')).assignment).toBe(assignment + 1)
    expect(await cluster.values('a', ids)).toEqual(valuesOf(CELLS))
  })

  test('a node that was stopped for longer than its leases answers nothing more, and ends', async () => {
    const { cluster, ids } = await threeNodes()
    await cluster.untilShipped(ids)
    const stopped = cluster.node('c')
    stopped.child.kill('SIGSTOP')
    expect(await cluster.values('a', ids)).toEqual(valuesOf(CELLS))
    const written = await cluster.request('a', 'PUT', `/v1/databases/${ids[0]}/kv/a`, { value: 'newer' })
    expect(written.status).toBe(200)
    stopped.child.kill('SIGCONT')
    const answers = await Promise.allSettled(
      ids.map((each) => stopped.request('GET', `/v1/databases/${each}/kv/a`, undefined, cluster.key)),
    )
    // It may pass requests on to the owners, which answer what is.
    const values = answers.flatMap((each) =>
      each.status === 'fulfilled' && each.value.status === 200 ? [each.value.body['value']] : [],
    )
    expect(values).not.toContain('value 0')
    const [code] = await stopped.ended
    expect(code).toBe(1)
  })

  test('a drained node has no cells, passes requests on, and takes part again after a balance', async () => {
    const { cluster, ids } = await threeNodes()
    const { place } = cluster
    await place.text('cluster', 'drain', cluster.id('b'), '--data-dir', 'a')
    expect(await cluster.rangesOf('b', 'a')).toBe(0)
    expect(await cluster.values('b', ids)).toEqual(valuesOf(CELLS))
    const made = await cluster.request('b', 'POST', '/v1/databases', { name: 'made through b' })
    expect(made.status).toBe(201)
    await place.text('cluster', 'balance', '--data-dir', 'c')
    expect(await cluster.rangesOf('b', 'a')).toBeGreaterThan(500)
    expect(await cluster.values('b', ids)).toEqual(valuesOf(CELLS))
  })

  test('a key that is revoked through one node is refused by all when that is answered (C7)', async () => {
    const { cluster } = await threeNodes()
    const a = cluster.node('a')
    const created = await cluster.request('a', 'POST', '/v1/api-keys', { name: 'second' })
    const { id, key } = created.body as { id: string; key: string }
    await until(
      async () => (await cluster.node('c').request('GET', '/v1/databases', undefined, key)).status === 200,
      'c knows the key',
    )
    expect((await a.request('DELETE', `/v1/api-keys/${id}`, undefined, cluster.key)).status).toBe(200)
    for (const name of ['a', 'b', 'c'])
      expect((await cluster.node(name).request('GET', '/v1/databases', undefined, key)).status).toBe(401)
  })
})
