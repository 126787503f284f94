import { randomBytes } from 'node:crypto'
import { describe, expect, test } from 'vitest'
import { bufferBody, type ObjectStore } from '../../../src/backup/object-store/object-store.ts'
import { entriesOf, expectBytes, expectCode, keysOf } from '../../support/s3/object-store-checks.ts'
import type { StoreUnderTest } from './object-store-under-test.ts'

const small = Buffer.from('a small object')
/** Enough for several parts. */
const LARGE = 20 * 1024 * 1024
const FAR_FUTURE_MS = Date.UTC(2100, 0)

/** The part of the contract about finding and removing; `current` is what the test at hand works on. */
export function listingContract(current: {
  readonly store: ObjectStore
  readonly subject: StoreUnderTest
}): void {
  describe('listing', () => {
    async function fill(keys: string[]): Promise<void> {
      const rest = keys.values()
      const work = async () => {
        for (const key of rest) await current.subject.fill(key)
      }
      await Promise.all(Array.from({ length: 16 }, work))
    }

    test('an empty store gives nothing', async () => {
      expect(await keysOf(current.store, '')).toEqual([])
      expect(await keysOf(current.store, 'snapshots/')).toEqual([])
    })

    test('gives keys in the order of their UTF-8 bytes, across folders, with their sizes', async () => {
      // U+FF61 comes before U+1F600 in UTF-8, and after it in UTF-16.
      const ordered = [
        'a!',
        'a-b',
        'a.b',
        'a/b',
        'a/b-c',
        'a/b.c/d',
        'a/bc',
        'a0',
        'b/c/d',
        'z',
        'é',
        '｡',
        '😀',
      ]
      await fill(ordered.toReversed())
      expect(await entriesOf(current.store, '')).toEqual(
        ordered.map((key) => ({ key, size: Buffer.byteLength(key) })),
      )
    })

    test('tells a prefix that names a folder from one that begins a name', async () => {
      await fill(['a/b', 'a/bc', 'a/b.d/e', 'ab', 'a/c', 'b/a'])
      expect(await keysOf(current.store, 'a/b')).toEqual(['a/b', 'a/b.d/e', 'a/bc'])
      expect(await keysOf(current.store, 'a/b.d/')).toEqual(['a/b.d/e'])
      expect(await keysOf(current.store, 'a/')).toEqual(['a/b', 'a/b.d/e', 'a/bc', 'a/c'])
      expect(await keysOf(current.store, 'a')).toEqual(['a/b', 'a/b.d/e', 'a/bc', 'a/c', 'ab'])
      expect(await keysOf(current.store, 'a/b/')).toEqual([])
      expect(await keysOf(current.store, 'c')).toEqual([])
    })

    test('begins after a given key, whether that is there or not', async () => {
      await fill(['a/1', 'a/2', 'a/3', 'b/1', 'c'])
      expect(await keysOf(current.store, '', 'a/2')).toEqual(['a/3', 'b/1', 'c'])
      expect(await keysOf(current.store, '', 'a/25')).toEqual(['a/3', 'b/1', 'c'])
      expect(await keysOf(current.store, '', 'a')).toEqual(['a/1', 'a/2', 'a/3', 'b/1', 'c'])
      expect(await keysOf(current.store, '', 'c')).toEqual([])
      expect(await keysOf(current.store, 'a/', 'a/2')).toEqual(['a/3'])
      expect(await keysOf(current.store, 'b/', 'a/2')).toEqual(['b/1'])
      expect(await keysOf(current.store, 'a/', 'b')).toEqual([])
    })

    test('gives every key of many pages once, and stops when the reader stops', async () => {
      const keys = Array.from(
        { length: 1100 },
        (_, n) => `snapshots/cell/backup-${String(n).padStart(5, '0')}`,
      )
      await fill(keys)
      expect(await keysOf(current.store, 'snapshots/cell/')).toEqual(keys)
      expect(await keysOf(current.store, '', keys[1049])).toEqual(keys.slice(1050))
      for await (const { key } of current.store.list('')) {
        expect(key).toBe(keys[0])
        break
      }
    })

    test.each(['/a', '../', 'a/../b', 'a//', '.cellstore/'])('refuses the prefix %j', async (prefix) => {
      await expectCode(keysOf(current.store, prefix), 'object_store_error')
    })
  })

  describe('deleting', () => {
    test('removes that object alone, and is no error for an absent one', async () => {
      for (const key of ['a/b', 'a/bc', 'a/c/d']) await current.store.put(key, bufferBody(small))
      await current.store.delete('a/b')
      await current.store.delete('a/b')
      await current.store.delete('a/never')
      await current.store.delete('a')
      await current.store.delete('a/bc/more')
      expect(await keysOf(current.store, '')).toEqual(['a/bc', 'a/c/d'])
      expect(await current.store.get('a/b')).toBeUndefined()
    })

    test('frees the key', async () => {
      await current.store.put('a/b', bufferBody(small))
      await current.store.delete('a/b')
      await current.store.put('a/b', bufferBody(Buffer.from('anew')))
      await expectBytes(current.store, 'a/b', Buffer.from('anew'))
    })
  })

  describe('sweeping uploads', () => {
    test('ends those under the prefix that are older, and no object', async (test) => {
      test.skip(!current.subject.endsUploads, 'the endpoint can not list unfinished uploads')
      await current.store.put('a/done', bufferBody(small))
      for (const key of ['a/one', 'a/two', 'ab', 'b/one']) await current.subject.strandUpload(key)
      expect(await keysOf(current.store, '')).toEqual(['a/done'])
      expect(await current.store.sweepUploads('', 0)).toBe(0)
      expect(await current.store.sweepUploads('a/', FAR_FUTURE_MS)).toBe(2)
      expect(await current.store.sweepUploads('a/', FAR_FUTURE_MS)).toBe(0)
      expect(await current.store.sweepUploads('', FAR_FUTURE_MS)).toBe(2)
      expect(await keysOf(current.store, '')).toEqual(['a/done'])
      await expectBytes(current.store, 'a/done', small)
    })

    test('says so where uploads can not be listed', async (test) => {
      test.skip(current.subject.endsUploads, 'the store can end uploads')
      await expectCode(current.store.sweepUploads('', FAR_FUTURE_MS), 'object_store_error')
    })

    test('does not keep a stranded upload from being done again', async () => {
      await current.subject.strandUpload('a/one')
      await current.store.put('a/one', bufferBody(randomBytes(LARGE)))
      expect(await current.store.head('a/one')).toEqual({ size: LARGE })
    })
  })
}
