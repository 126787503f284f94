import { expect, test } from 'vitest'
import type { CellChange } from '../../../src/store/watch/cell-change.ts'
import type { ChangeStream } from '../../../src/store/watch/change-stream.ts'
import { openTestCell, openTestStore } from '../../support/open-test-store.ts'
import { codeOf } from '../../support/thrown.ts'

const KEEP_MS = 60_000

function all(stream: ChangeStream): CellChange[] {
  stream.open()
  const changes: CellChange[] = []
  for (let change = stream.nextNow(); change !== undefined; change = stream.nextNow()) changes.push(change)
  return changes
}

const keysOf = (stream: ChangeStream) =>
  all(stream).map((change) => (change.type === 'commit' ? change.keys?.[0] : change.reason))

test('the example of the docstring keeps a copy of entries', async () => {
  const { cell } = await openTestCell()
  cell.kv.put('session/1', 'Ann')
  const sessions = new Map<string, string | undefined>()
  const abort = new AbortController()
  const { signal } = abort
  const copy = (async () => {
    const prefix = 'session/'
    for await (const change of cell.watch({ prefix, signal })) {
      const keys = change.type === 'commit' ? change.keys : null
      if (keys === null) sessions.clear()
      for await (const key of keys ?? cell.kv.keys({ prefix })) sessions.set(key, cell.kv.get(key))
    }
  })()
  await expect.poll(() => sessions.get('session/1')).toBe('Ann')
  cell.kv.put('session/1', 'Bob')
  cell.kv.put('other', 'x')
  await expect.poll(() => [...sessions]).toEqual([['session/1', 'Bob']])
  abort.abort(new Error('enough'))
  await expect(copy).rejects.toThrow('enough')
})

test('break ends a watch, and the next one goes on after it', async () => {
  const { cell } = await openTestCell()
  let lastEventId: string | undefined
  for await (const { id } of cell.watch()) {
    lastEventId = id
    break
  }
  cell.kv.put('a', '1')
  expect(keysOf(cell.watch({ lastEventId }))).toEqual(['a'])
})

test('a commit that was undone and made again is told of once, and what was undone is not', async () => {
  const { cell } = await openTestCell()
  const stream = cell.watch()
  all(stream)
  await Promise.allSettled([
    cell.commit(() => cell.kv.put('before', '1')),
    cell.commit(() => {
      cell.kv.put('undone', '1')
      throw new Error('mine')
    }),
    cell.commit(() => cell.kv.put('after', '1')),
  ])
  const keys = all(stream).flatMap((change) => (change.type === 'commit' ? change.keys : []))
  expect(keys).toEqual(['before', 'after'])
})

test('after the last watch, commits are kept for a minute', async () => {
  const { cell, clock } = await openTestCell()
  const first = cell.watch()
  const lastEventId = all(first)[0]?.id
  await first.return()
  clock.advance(KEEP_MS - 1)
  cell.kv.put('a', '1')
  const second = cell.watch({ lastEventId })
  expect(keysOf(second)).toEqual(['a'])
  await second.return()
  clock.advance(KEEP_MS)
  cell.kv.put('b', '1')
  expect(keysOf(cell.watch({ lastEventId }))).toEqual(['unknown_id'])
})

test('a reader that falls behind what is kept gets a reset, and what follows', async () => {
  const { cell } = await openTestCell({ watch: { cellBytesMax: 2_000 } })
  const slow = cell.watch()
  const quick = cell.watch()
  let tooSlow = 0
  slow.onTooSlow = () => tooSlow++
  quick.onTooSlow = () => expect.unreachable()
  expect([keysOf(slow), keysOf(quick)]).toEqual([['start'], ['start']])
  for (let i = 0; i < 100; i++) {
    cell.kv.put(`k${i}`, '1')
    expect(keysOf(quick)).toEqual([`k${i}`])
  }
  expect(tooSlow).toBeGreaterThan(0)
  expect(keysOf(slow)).toEqual(['too_slow'])
  cell.kv.put('last', '1')
  expect(keysOf(slow)).toEqual(['last'])
})

test('an account with many commits takes none of another one’s', async () => {
  const { store } = await openTestStore({ watch: { totalBytesMax: 20_000, cellBytesMax: 1_000_000 } })
  const cellOf = () => store.createCell({ accountId: store.accounts.create().id })
  const quiet = cellOf()
  const busy = [cellOf()]
  const { accountId } = busy[0] as typeof quiet
  for (let i = 0; i < 5; i++) busy.push(store.createCell({ accountId: accountId as string }))
  const first = quiet.watch()
  const { id } = all(first)[0] as CellChange
  for (let i = 0; i < 20; i++) quiet.kv.put(`k${i}`, '1')
  const streams = busy.map((cell) => cell.watch())
  for (const stream of streams) all(stream)
  for (const cell of busy) for (let i = 0; i < 50; i++) cell.kv.put(`key-${i}`, '1')
  expect(streams.flatMap(keysOf)).toContain('too_slow')
  expect(keysOf(quiet.watch({ lastEventId: id }))).toHaveLength(20)
})

test('a closed store ends its watches', async () => {
  const { cell, store } = await openTestCell()
  const stream = cell.watch()
  await stream.next()
  const waiting = stream.next()
  void store.close()
  await expect(waiting).rejects.toMatchObject({ code: 'store_closed' })
})

test.each([
  [{ prefixes: 'a' }, 'invalid_request'],
  [{ prefix: 7 }, 'invalid_key'],
  [{ prefix: 'k'.repeat(1_025) }, 'invalid_key'],
  [{ tables: 'a' }, 'invalid_request'],
  [{ tables: [] }, 'invalid_request'],
  [{ tables: [''] }, 'invalid_request'],
  [{ tables: Array.from({ length: 101 }, String) }, 'invalid_request'],
  [{ lastEventId: 7 }, 'invalid_request'],
])('the options %j are refused', async (options, code) => {
  const { cell } = await openTestCell()
  expect(codeOf(() => cell.watch(options as never))).toBe(code)
})
