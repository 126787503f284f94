import { afterAll, beforeAll, beforeEach, describe, expect, onTestFinished, test } from 'vitest'
import type { CellOperation, ResultOf } from '../../src/service/operations.ts'
import type { CellChange, WatchOptions } from '../../src/store/watch/cell-change.ts'
import type { ChangeStream } from '../../src/store/watch/change-stream.ts'
import { rejectedBy } from '../support/thrown.ts'
import type { MakeService, ServiceUnderTest } from './service-under-test.ts'

/** What a `CellService` promises those who watch a cell, as tests. */
export function cellServiceWatchContract(name: string, make: MakeService): void {
  describe(`${name} keeps the contract of watches`, () => {
    let subject: ServiceUnderTest
    let id: string

    beforeAll(async () => {
      subject = await make({ hasObjects: true, sqlPolicy: 'trusted' })
    })

    afterAll(async () => await subject.close())

    beforeEach(async () => {
      id = subject.store.createCell().id
      await sql('CREATE TABLE t (x)')
    })

    function run<O extends CellOperation>(operation: O): Promise<ResultOf<O>> {
      return subject.service.execute(id, operation)
    }

    const put = (key: string, value = '1') => run({ op: 'kv.put', key, value })
    const sql = (text: string) => run({ op: 'sql', sql: text })

    async function watch(options?: WatchOptions): Promise<ChangeStream> {
      const stream = await subject.service.watch(id, options)
      onTestFinished(async () => void (await stream.return()))
      return stream
    }

    async function started(options?: WatchOptions): Promise<ChangeStream> {
      const stream = await watch(options)
      expect(await next(stream)).toMatchObject({ type: 'reset', reason: 'start' })
      return stream
    }

    test('the first change is a reset, and then each commit comes once, in order, with what it touched', async () => {
      const stream = await started()
      await put('a')
      await sql('INSERT INTO t VALUES (1)')
      await run({
        op: 'batch',
        operations: [
          { op: 'kv.put', key: 'b', value: '1' },
          { op: 'kv.delete', key: 'a' },
          { op: 'sql', sql: 'DELETE FROM t' },
        ],
      })
      const changes = [await next(stream), await next(stream), await next(stream)]
      expect(changes.map(withoutId)).toEqual([
        { type: 'commit', keys: ['a'], tables: [] },
        { type: 'commit', keys: [], tables: ['t'] },
        { type: 'commit', keys: ['b', 'a'], tables: ['t'] },
      ])
      expect(changes.map(({ id: eventId }) => Number(eventId.split('-')[1]))).toEqual([1, 2, 3])
    })

    test('a change of which the answer has come has been told before', async () => {
      const stream = await started()
      for (let i = 0; i < 50; i++) {
        await put(`k${i}`)
        expect(stream.nextNow()).toMatchObject({ keys: [`k${i}`] })
      }
    })

    test('work that fails is not told of, and its neighbours are', async () => {
      const stream = await started()
      const failing = run({
        op: 'batch',
        operations: [
          { op: 'kv.put', key: 'undone', value: '1' },
          { op: 'sql', sql: 'no SQL' },
        ],
      })
      await Promise.all([put('a'), expect(failing).rejects.toMatchObject({ code: 'sql_error' }), put('b')])
      const keys = new Set<string>()
      for (let change = stream.nextNow(); change !== undefined; change = stream.nextNow())
        for (const key of (change.type === 'commit' && change.keys) || []) keys.add(key)
      expect([...keys].sort()).toEqual(['a', 'b'])
    })

    test('what can’t be named is told as anything', async () => {
      const stream = await started()
      await sql('CREATE TABLE another (x)')
      expect(await next(stream)).toMatchObject({ keys: [], tables: null })
      await run({
        op: 'kv.mset',
        entries: Array.from({ length: 1_000 }, (_, i) => ({ key: `${'long'.repeat(50)}${i}`, value: '1' })),
      })
      expect(await next(stream)).toMatchObject({ keys: null, tables: [] })
    })

    test('a watch of a prefix or of tables hears of nothing else', async () => {
      const ofPrefix = await started({ prefix: 'user/' })
      const ofTables = await started({ tables: ['T'] })
      const ofBoth = await started({ prefix: 'user/', tables: ['u'] })
      await sql('CREATE TABLE u (x)')
      // Whatever changes a schema may change any table.
      expect(withoutId(await next(ofTables))).toEqual({ type: 'commit', keys: [], tables: null })
      expect(await next(ofBoth)).toMatchObject({ keys: [], tables: null })
      await put('other')
      await sql('INSERT INTO t VALUES (1)')
      await sql('INSERT INTO u VALUES (1)')
      await run({ op: 'kv.deleteMany', keys: ['other', 'user/1'] })
      await put('user/1')
      expect(withoutId(await next(ofPrefix))).toEqual({ type: 'commit', keys: ['user/1'], tables: [] })
      expect(withoutId(await next(ofTables))).toEqual({ type: 'commit', keys: [], tables: ['t'] })
      expect(withoutId(await next(ofBoth))).toEqual({ type: 'commit', keys: [], tables: ['u'] })
      expect(withoutId(await next(ofBoth))).toEqual({ type: 'commit', keys: ['user/1'], tables: [] })
    })

    test('a watch goes on after the last change that was read', async () => {
      const first = await started()
      await put('a')
      const { id: lastEventId } = await next(first)
      await first.return()
      await put('b')
      await put('c')
      const second = await watch({ lastEventId })
      expect(await next(second)).toMatchObject({ keys: ['b'] })
      expect(await next(second)).toMatchObject({ keys: ['c'] })
    })

    test.each(['', 'x', '0123456789abcdef-3', '0123456789abcdef-99999999999999999999'])(
      'an id that is not known, %j, is answered with a reset, and changes follow',
      async (lastEventId) => {
        const stream = await watch({ lastEventId })
        expect(await next(stream)).toMatchObject({ type: 'reset', reason: 'unknown_id' })
        await put('a')
        expect(await next(stream)).toMatchObject({ keys: ['a'] })
      },
    )

    test('an expired entry is named when it is collected', async () => {
      const stream = await started()
      await run({ op: 'kv.put', key: 'short', value: '1', ttlSeconds: 1 })
      expect(await next(stream)).toMatchObject({ keys: ['short'] })
      expect(await next(stream)).toMatchObject({ type: 'commit', keys: ['short'], tables: [] })
      expect(await run({ op: 'kv.get', key: 'short' })).toBeUndefined()
    })

    test('a restore is a reset, and commits follow it', async () => {
      await put('a')
      await subject.service.backups.snapshot(id)
      const stream = await started()
      await put('b')
      const { id: lastEventId } = await next(stream)
      await subject.service.backups.restore(id)
      expect(await next(stream)).toMatchObject({ type: 'reset', reason: 'restored' })
      await put('c')
      expect(await next(stream)).toMatchObject({ keys: ['c'] })
      const later = await watch({ lastEventId })
      expect(await next(later)).toMatchObject({ type: 'reset', reason: 'unknown_id' })
    })

    test('a deleted cell ends its watches, and can’t be watched', async () => {
      const stream = await started()
      const waiting = rejectedBy(stream.next())
      await subject.service.deleteCell(id)
      expect(await waiting).toMatchObject({ code: 'cell_not_found' })
      expect(await stream.next()).toEqual({ done: true, value: undefined })
      expect(await rejectedBy(subject.service.watch(id))).toMatchObject({ code: 'cell_not_found' })
    })

    test('the signal ends a watch with its reason', async () => {
      const abort = new AbortController()
      const stream = await started({ signal: abort.signal })
      const waiting = stream.next()
      abort.abort(new Error('enough'))
      await expect(waiting).rejects.toThrow('enough')
    })

    test('a watch that may no longer begin does not', async () => {
      const permit = {
        check: () => {
          throw new Error('revoked')
        },
      }
      await expect(subject.service.watch(id, {}, permit)).rejects.toThrow('revoked')
    })

    test('a hundred watches of a cell all hear of its commits', async () => {
      const streams = await Promise.all(Array.from({ length: 100 }, () => started()))
      const waiting = streams.map(next)
      await put('a')
      for (const change of await Promise.all(waiting)) expect(change).toMatchObject({ keys: ['a'] })
    })

    test('commits of many cells at once are told as durable as their answers', async () => {
      const cells = [id, ...Array.from({ length: 7 }, () => subject.store.createCell().id)]
      const streams = await Promise.all(cells.map((cellId) => subject.service.watch(cellId)))
      for (const stream of streams) expect(await next(stream)).toMatchObject({ reason: 'start' })
      for (let round = 0; round < 20; round++) {
        await Promise.all(
          cells.map(async (cellId, i) => {
            await subject.service.execute(cellId, { op: 'kv.put', key: `k${round}`, value: '1' })
            expect((streams[i] as ChangeStream).nextNow()).toMatchObject({ keys: [`k${round}`] })
          }),
        )
      }
      await Promise.all(streams.map((stream) => stream.return()))
    })
  })
}

async function next(stream: ChangeStream): Promise<CellChange> {
  const { value } = await stream.next()
  if (value === undefined) throw new Error('The watch has ended.')
  return value
}

function withoutId({ id: _, ...change }: CellChange): object {
  return change
}
