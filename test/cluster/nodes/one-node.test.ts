import { describe, expect, test } from 'vitest'
import { Workplace } from '../../support/cli/workplace.ts'
import { ClusterOfTest, valuesOf } from '../../support/cluster/nodes.ts'
import { freePort } from '../../support/free-port.ts'
import { hasPostgres } from '../../support/postgres.ts'

describe.skipIf(!hasPostgres)('from one node to many, and back', () => {
  test('a store that ran alone becomes the first node, with its keys and cells; as the last node it is alone again', async () => {
    const cluster = await ClusterOfTest.start()
    const { place } = cluster
    const alone = ['--data-dir', 'a', '--object-store', `file://${place.objects}`]
    const before = await place.serve(...alone)
    cluster.key = before.key
    cluster.nodes.set('a', before)
    const ids = await cluster.cells(4)
    await before.stop()

    await cluster.serve('a')
    expect(await cluster.values('a', ids)).toEqual(valuesOf(4))
    await cluster.serve('b')
    await cluster.untilLevel('a')
    expect(await cluster.values('b', ids)).toEqual(valuesOf(4))

    // While there are nodes, nobody opens the store without them.
    const refused = { exit: 2, code: 'invalid_setting', message: expect.stringContaining('--cluster') }
    expect(await place.failure('serve', '--port', '0', ...alone.with(1, 'c'))).toMatchObject(refused)
    expect(await place.failure('cluster', 'leave', '--last', '--data-dir', 'a')).toMatchObject({
      code: 'invalid_request',
    })

    await place.text('cluster', 'leave', '--data-dir', 'b')
    expect((await cluster.node('b').ended)[0]).toBe(0)
    expect(await cluster.rangesOf('a')).toBe(4_096)
    expect(await place.failure('serve', '--port', '0', ...alone.with(1, 'b'))).toMatchObject(refused)
    await place.text('cluster', 'leave', '--last', '--data-dir', 'a')
    expect((await cluster.node('a').ended)[0]).toBe(0)

    cluster.nodes.set('a', await place.serve(...alone))
    expect(await cluster.values('a', ids)).toEqual(valuesOf(4))
    // Its old catalog must not become the cluster's: keys that were revoked since would be good again.
    const old = ['serve', '--port', '0', ...alone.with(1, 'b'), '--cluster', cluster.url]
    expect(await place.failure(...old)).toMatchObject({
      exit: 2,
      code: 'invalid_setting',
      message: expect.stringContaining('what it has is old'),
    })
    await cluster.node('a').stop()

    // And once more into a cluster.
    await cluster.serve('a')
    expect(await cluster.values('a', ids)).toEqual(valuesOf(4))
  })

  test('what an operator can get wrong is said, and nothing is changed', async () => {
    const cluster = await ClusterOfTest.start()
    const { place, url } = cluster
    const objects = ['--object-store', `file://${place.objects}`]
    const start = (name: string, ...args: string[]) =>
      place.failure('serve', '--port', '0', '--data-dir', name, ...objects, ...args)
    const setting = (text: string) => ({
      exit: 2,
      code: 'invalid_setting',
      message: expect.stringContaining(text),
    })
    expect(await start('x', '--cluster', 'mysql://127.0.0.1/x')).toMatchObject(setting('postgres://'))
    const nobody = `postgres://cellstore@127.0.0.1:${await freePort()}/postgres`
    expect(await start('x', '--cluster', nobody)).toMatchObject(setting('PostgreSQL does not serve now'))
    const anywhere = ['--cluster', url, '--host', '0.0.0.0']
    expect(await start('x', ...anywhere)).toMatchObject(setting('Set --advertise'))
    expect(place.has('x')).toBe(false)
    expect(place.has('objects')).toBe(false)

    await cluster.serve('a')
    const wrong = `http://127.0.0.1:${await freePort()}`
    expect(await start('x', '--cluster', url, '--advertise', wrong)).toMatchObject(setting(wrong))
    expect((await cluster.status('a')).nodes).toHaveLength(1)
    const other = ['--object-store', `file://${place.folder}/other`]
    const otherBucket = place.failure('serve', '--port', '0', '--data-dir', 'y', ...other, '--cluster', url)
    expect(await otherBucket).toMatchObject(setting('the same object store'))
    // One directory is one node.
    expect(await start('a', '--cluster', url)).toMatchObject({ exit: 1, code: 'store_locked' })
    // The store of another cluster.
    const foreign = new Workplace()
    await (await foreign.serve()).stop()
    const directory = `${foreign.folder}/data`
    expect(await start(directory, '--cluster', url)).toMatchObject(setting('holds store'))
  })
})
