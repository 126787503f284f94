import { expect, test } from 'vitest'
import {
  BatchSize,
  checkNamesFit,
  listWithin,
  mgetWithin,
  resultBytes,
} from '../../src/service/answer-size.ts'
import { openTestStore } from '../support/open-test-store.ts'
import { codeOf } from '../support/thrown.ts'

const result = (columns: string[], rows: unknown[]) =>
  ({ columns, rows, changes: 0, lastInsertRowid: null, durationMs: 0 }) as Parameters<typeof checkNamesFit>[0]

test('empty values are not free in a batch', () => {
  const empty = result(['a', 'b'], Array(10).fill(['', new Uint8Array()]))
  expect(resultBytes(empty)).toBe(10 * (8 + 64))
  expect(codeOf(() => new BatchSize(10 * (8 + 64) - 1).add(empty))).toBe('result_too_large')
})

test('names of columns count as they are in JSON, in each row', () => {
  const named = result(['\u0001"é'], Array(3).fill({ '\u0001"é': 1 }))
  const bytes = 3 * (6 + 2 + 2)
  expect(() => checkNamesFit(named, { rowsMax: 9, bytesMax: bytes })).not.toThrow()
  expect(codeOf(() => checkNamesFit(named, { rowsMax: 9, bytesMax: bytes - 1 }))).toBe('result_too_large')
})

test('values of control characters fill a page and an mget sooner', async () => {
  const { store } = await openTestStore()
  const { kv } = store.openCell(store.createCell().id)
  const keys = Array.from({ length: 20 }, (_, i) => `k${i}`)
  for (const key of keys) kv.put(key, '\u0001'.repeat(1_000))
  expect(codeOf(() => mgetWithin(kv, keys, 59_999))).toBe('result_too_large')
  expect(mgetWithin(kv, keys, 60_000)).toHaveLength(20)
  expect(listWithin(kv, { limit: 20 }, 30_000).entries).toHaveLength(10)
  for (const key of keys) kv.put(key, '"\n\\\t'.repeat(250))
  expect(mgetWithin(kv, keys, 20_000)).toHaveLength(20)
})
