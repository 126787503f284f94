import { expect, test } from 'vitest'
import { scopedTo } from '../../../src/backup/fence/scoped-object-store.ts'
import { FileObjectStore } from '../../../src/backup/object-store/file/file-object-store.ts'
import { findLastLog } from '../../../src/backup/shipping/stored/last-log.ts'
import { systemClock } from '../../../src/base/clock.ts'
import { type Assignment, afterMoves, rangeOf } from '../../../src/catalog/assignment/assignment.ts'
import { AssignmentLog } from '../../../src/store/start/assignment-log.ts'
import { ClusterOfTest } from '../../support/cluster/nodes.ts'
import { hasPostgres } from '../../support/postgres.ts'

// A start takes its time on a busy machine.
const FLAGS = ['--cluster-ttl', '60s', '--durability', 'remote']

test.skipIf(!hasPostgres)(
  'A node is killed while its assignment of a move is on its way to the bucket, and starts again: what it acknowledges from then on is kept, however late that assignment comes (C3, C5)',
  { timeout: 120_000 },
  async () => {
    const cluster = await ClusterOfTest.start()
    await cluster.serve('a', ...FLAGS)
    await cluster.serve('b', ...FLAGS)
    await cluster.untilLevel('a')
    await cluster.place.text('cluster', 'balance', '--data-dir', 'a')
    const { body } = await cluster.request('a', 'POST', '/v1/databases', { name: 'cell' })
    const [id, path] = [String(body['id']), `/v1/databases/${body['id']}/kv/a`]
    expect((await cluster.request('a', 'PUT', path, { value: 'before' })).status).toBe(200)
    expect((await cluster.request('a', 'GET', `/v1/databases/${id}`)).body['node']).toMatchObject({
      id: cluster.id('a'),
    })

    const bucket = new FileObjectStore({ root: cluster.place.objects, clock: systemClock })
    const log = new AssignmentLog(bucket, systemClock)
    const newest = (await log.newest()) as Assignment
    const [a, b] = [cluster.id('a'), cluster.id('b')]
    const own = scopedTo(bucket, newest.prefixes[a] as string, () => id)
    const end = { lastLog: (await findLastLog(own, Number.MAX_SAFE_INTEGER)) ?? null, stampBound: Date.now() }
    const range = rangeOf(id)
    const move = { lo: range, hi: range, node: b, prefix: newest.prefixes[b] as string, end }
    const late = afterMoves(newest, [move])
    cluster.node('a').child.kill('SIGKILL')
    await cluster.node('a').ended

    await cluster.serve('a', ...FLAGS)
    expect(cluster.id('a')).toBe(a)
    expect((await cluster.request('a', 'PUT', path, { value: 'after' })).status).toBe(200)
    const isStored = await log.put(late)
    await bucket.close()
    cluster.node('a').child.kill('SIGKILL')
    await cluster.node('a').ended
    await cluster.serve('a', ...FLAGS)
    expect((await cluster.request('a', 'GET', path)).body['value']).toBe('after')
    expect(isStored).toBe(false)
  },
)
