import { createHash, randomBytes } from 'node:crypto'
import { setImmediate } from 'node:timers/promises'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { ObjectReader } from '../../../src/backup/archive/object-reader.ts'
import type { Patience } from '../../../src/backup/object-store/call-deadline.ts'
import {
  bufferBody,
  type ObjectBody,
  type ObjectStore,
} from '../../../src/backup/object-store/object-store.ts'
import { systemClock } from '../../../src/base/clock.ts'
import { CellError } from '../../../src/errors.ts'
import {
  collect,
  collectAll,
  entriesOf,
  expectBytes,
  expectCode,
  keysOf,
  sha256Of,
} from '../../support/s3/object-store-checks.ts'
import { listingContract } from './object-store-listing.contract.ts'
import type { StoreUnderTest } from './object-store-under-test.ts'

const MIB = 1024 * 1024
/** More than two parts of 8 MiB, and no whole number of them. */
const LARGE = 20 * MIB + 12_345
const small = Buffer.from('a small object')
const FAR_FUTURE_MS = Date.UTC(2100, 0)

/** The promises of `ObjectStore`, as tests. Every implementation passes them. */
export function objectStoreContract(name: string, make: () => Promise<StoreUnderTest>): void {
  describe(`${name} keeps the contract of an object store`, () => {
    let subject: StoreUnderTest
    let store: ObjectStore
    const opened: ObjectStore[] = []

    function open(patience?: Partial<Patience>): ObjectStore {
      const another = subject.open(patience)
      opened.push(another)
      return another
    }

    beforeEach(async () => {
      subject = await make()
      store = open()
    })

    afterEach(async () => {
      await Promise.all(opened.splice(0).map((each) => each.close()))
      await subject.dispose()
    })

    async function expectNothingAt(key: string): Promise<void> {
      const fresh = open()
      expect(await fresh.head(key)).toBeUndefined()
      expect(await keysOf(fresh, '')).toEqual([])
      if (subject.endsUploads) expect(await fresh.sweepUploads('', FAR_FUTURE_MS)).toBe(0)
    }

    describe('storing and reading', () => {
      test('gives back exactly the bytes that were stored, and their number', async () => {
        await store.put('snapshots/a/backup-1', bufferBody(small))
        await expectBytes(store, 'snapshots/a/backup-1', small)
        expect(await store.head('snapshots/a/backup-1')).toEqual({ size: small.length })
      })

      test('stores an empty object, which is not the same as none', async () => {
        await store.put('empty', bufferBody(Buffer.alloc(0)))
        expect(await store.head('empty')).toEqual({ size: 0 })
        expect(await store.get('empty')).toMatchObject({ size: 0 })
        await expectBytes(store, 'empty', Buffer.alloc(0))
        expect(await entriesOf(store, '')).toEqual([{ key: 'empty', size: 0 }])
      })

      test('stores a large object of several parts, and reports the bytes stored so far', async () => {
        const bytes = randomBytes(LARGE)
        const progress: number[] = []
        await store.put('large', bufferBody(bytes), { onProgress: (count) => progress.push(count) })
        expect(await store.head('large')).toEqual({ size: LARGE })
        expect(await sha256Of(store, 'large')).toBe(createHash('sha256').update(bytes).digest('hex'))
        expect(progress.length).toBeGreaterThan(1)
        expect(progress).toEqual(progress.toSorted((a, b) => a - b))
        expect(progress.at(-1)).toBe(LARGE)
      })

      test('stores objects side by side, large and small', async () => {
        const bodies = new Map([1, 2, 3].map((n) => [`many/${n}`, randomBytes(n === 2 ? LARGE : n * 1000)]))
        await Promise.all([...bodies].map(([key, bytes]) => store.put(key, bufferBody(bytes))))
        for (const [key, bytes] of bodies) {
          expect(await sha256Of(store, key)).toBe(createHash('sha256').update(bytes).digest('hex'))
        }
      })

      test.each([
        'with space',
        'plus+and%41percent',
        'snow ☃/and 𝒳.tar',
        'quotes\'"&<>',
        'a=b?c#d',
        `${'x'.repeat(200)}`,
      ])('takes the key %j as it is spelt', async (key) => {
        await store.put(key, bufferBody(small))
        await expectBytes(store, key, small)
        expect(await keysOf(store, '')).toEqual([key])
        await store.delete(key)
        expect(await store.head(key)).toBeUndefined()
      })

      test.each([
        '',
        '/absolute',
        'folder/',
        'a//b',
        '..',
        '../outside',
        'a/../../outside',
        './a',
        'nul\0byte',
        'line\nfeed',
        'back\\slash',
        'lone \ud800 surrogate',
        '.cellstore/anything',
        'x'.repeat(600),
      ])('refuses %j as a key', async (key) => {
        await expectCode(store.put(key, bufferBody(small)), 'object_store_error')
        await expectCode(store.get(key), 'object_store_error')
        await expectCode(store.head(key), 'object_store_error')
        await expectCode(store.delete(key), 'object_store_error')
      })

      test('answers an absent object with undefined', async () => {
        await store.put('there/is', bufferBody(small))
        for (const key of ['absent', 'there/is-not', 'there', 'there/is/more']) {
          expect(await store.head(key)).toBeUndefined()
          expect(await store.get(key)).toBeUndefined()
          expect(await store.get(key, { range: { offset: 0, length: 5 } })).toBeUndefined()
          expect(await store.get(key, { range: { offset: 0, length: 0 } })).toBeUndefined()
          expect(await store.get(key, { range: { last: 5 } })).toBeUndefined()
        }
      })

      test('goes on after a reader that stopped in the middle', async () => {
        const bytes = randomBytes(4 * MIB)
        await store.put('half', bufferBody(bytes))
        for (let round = 0; round < 3; round++) {
          const content = await store.get('half')
          for await (const chunk of content?.body ?? []) {
            expect(chunk.length).toBeGreaterThan(0)
            break
          }
        }
        await expectBytes(store, 'half', bytes)
      })

      test('gives a reader that lets go of each chunk the same bytes, whatever memory they come in', async () => {
        const bytes = randomBytes(4 * MIB + 1)
        await store.put('reused', bufferBody(bytes))
        const content = await store.get('reused', { reusesMemory: true })
        let at = 0
        for await (const chunk of content?.body ?? []) {
          expect(bytes.subarray(at, at + chunk.length).equals(chunk)).toBe(true)
          at += chunk.length
        }
        expect(at).toBe(bytes.length)
      })
    })

    describe('reading a range', () => {
      const bytes = Buffer.from(Array.from({ length: 1000 }, (_, index) => index % 251))

      test.each([
        { range: { offset: 0, length: 1 }, from: 0, to: 1 },
        { range: { offset: 10, length: 20 }, from: 10, to: 30 },
        { range: { offset: 990, length: 10 }, from: 990, to: 1000 },
        { range: { offset: 990, length: 500 }, from: 990, to: 1000 },
        { range: { offset: 0, length: 1000 }, from: 0, to: 1000 },
        { range: { offset: 1000, length: 10 }, from: 1000, to: 1000 },
        { range: { offset: 5000, length: 10 }, from: 1000, to: 1000 },
        { range: { offset: 10, length: 0 }, from: 10, to: 10 },
        { range: { last: 16 }, from: 984, to: 1000 },
        { range: { last: 1 }, from: 999, to: 1000 },
        { range: { last: 0 }, from: 1000, to: 1000 },
        { range: { last: 5000 }, from: 0, to: 1000 },
      ])('$range of 1,000 bytes gives bytes $from to $to', async ({ range, from, to }) => {
        await store.put('thousand', bufferBody(bytes))
        const content = await store.get('thousand', { range })
        expect(content?.size).toBe(to - from)
        expect(await collect(content?.body ?? [])).toEqual(bytes.subarray(from, to))
      })

      test('several at a time of a large object, as a restore does, gives its bytes in order', async () => {
        const large = randomBytes(LARGE)
        await store.put('large', bufferBody(large))
        const reader = new ObjectReader(store, systemClock)
        expect(await reader.size('large', {})).toBe(LARGE)
        for (const offset of [0, 12_345]) {
          const hash = createHash('sha256')
          for await (const chunk of reader.read('large', LARGE, offset, {})) hash.update(chunk)
          const expected = createHash('sha256').update(large.subarray(offset)).digest('hex')
          expect(hash.digest('hex')).toBe(expected)
        }
      })

      test('of an empty object is empty', async () => {
        await store.put('empty', bufferBody(Buffer.alloc(0)))
        for (const range of [{ offset: 0, length: 5 }, { offset: 3, length: 5 }, { last: 5 }]) {
          const content = await store.get('empty', { range })
          expect(content?.size).toBe(0)
          expect(await collect(content?.body ?? [])).toEqual(Buffer.alloc(0))
        }
      })

      test.each([
        { offset: -1, length: 5 },
        { offset: 0, length: -5 },
        { offset: 0.5, length: 5 },
        { last: -1 },
        { last: Number.NaN },
      ])('refuses %j', async (range) => {
        await store.put('thousand', bufferBody(bytes))
        await expectCode(store.get('thousand', { range }), 'object_store_error')
      })
    })

    describe('an object is never overwritten (invariant 9)', () => {
      test.each([
        ['small', small],
        ['large', randomBytes(LARGE)],
      ])('a second put of a %s object is refused and changes nothing', async (_, second) => {
        await store.put('once', bufferBody(Buffer.from('the first')))
        await expectCode(store.put('once', bufferBody(second)), 'object_exists')
        await expectCode(open().put('once', bufferBody(second)), 'object_exists')
        await expectBytes(store, 'once', Buffer.from('the first'))
        if (subject.endsUploads) expect(await store.sweepUploads('', FAR_FUTURE_MS)).toBe(0)
      })

      test('of puts of one key at the same time exactly one wins', async () => {
        await expectOneWinner(
          [1, 2, 3, 4].map((n) => [store, Buffer.alloc(1000, n)] as const),
          'contested',
        )
      })

      test('of large puts of one key at the same time exactly one wins', async () => {
        await expectOneWinner(
          [1, 2].map((n) => [store, Buffer.alloc(LARGE, n)] as const),
          'contested',
        )
        if (subject.endsUploads) expect(await store.sweepUploads('', FAR_FUTURE_MS)).toBe(0)
      })

      test('of puts of one key by several stores exactly one wins, where that can be promised', async (test) => {
        test.skip(!subject.excludesOtherStores.small, 'the endpoint does not honour conditional writes')
        await expectOneWinner(
          [1, 2, 3, 4].map((n) => [open(), Buffer.alloc(1000, n)] as const),
          'contested',
        )
      })

      test('of large puts of one key by several stores exactly one wins, where that can be promised', async (test) => {
        test.skip(
          !subject.excludesOtherStores.large,
          'the endpoint does not check conditions at the end of an upload',
        )
        await expectOneWinner(
          [1, 2].map((n) => [open(), Buffer.alloc(LARGE, n)] as const),
          'contested',
        )
      })

      async function expectOneWinner(
        writers: (readonly [ObjectStore, Buffer])[],
        key: string,
      ): Promise<void> {
        const outcomes = await Promise.allSettled(
          writers.map(([each, bytes]) => each.put(key, bufferBody(bytes))),
        )
        const winners = writers.filter((_, index) => outcomes[index]?.status === 'fulfilled')
        expect(winners.length).toBe(1)
        for (const outcome of outcomes) {
          if (outcome.status === 'rejected') expect(outcome.reason).toMatchObject({ code: 'object_exists' })
        }
        const [winner] = winners
        expect(await sha256Of(store, key)).toBe(
          createHash('sha256')
            .update(winner?.[1] ?? '')
            .digest('hex'),
        )
      }
    })

    describe('a put that fails leaves nothing', () => {
      test.each([
        ['small', 1000],
        ['large', LARGE],
      ])('when the bytes of a %s object end early', async (_, size) => {
        const read = async (offset: number, length: number) =>
          Buffer.alloc(offset + length >= size ? length - 1 : length)
        await expectCode(store.put('short', { size, read }), 'object_store_error')
        await expectNothingAt('short')
      })

      test.each([
        ['small', 1000],
        ['large', LARGE],
      ])('when the bytes of a %s object can not be read', async (_, size) => {
        const read = async (offset: number, length: number) => {
          if (offset + length >= size) throw new Error('the disk is broken')
          return Buffer.alloc(length)
        }
        await expectCode(store.put('unreadable', { size, read }), 'object_store_error')
        await expectNothingAt('unreadable')
      })

      test.each([
        ['small', 1000],
        ['large', LARGE],
      ])('when its signal fires before a %s object is begun', async (_, size) => {
        const signal = AbortSignal.abort(new CellError('shutting_down', 'The node is shutting down.'))
        await expectCode(store.put('late', bufferBody(Buffer.alloc(size)), { signal }), 'shutting_down')
        await expectNothingAt('late')
      })

      test.each([
        ['small', 1000],
        ['large', LARGE],
      ])('when its signal fires while a %s object is being stored', async (_, size) => {
        const controller = new AbortController()
        const read = async (offset: number, length: number) => {
          if (offset + length >= size) controller.abort(new Error('enough'))
          await setImmediate()
          return Buffer.alloc(length)
        }
        const put = store.put('cut', { size, read }, { signal: controller.signal })
        await expectCode(put, 'object_store_unavailable')
        await expectNothingAt('cut')
      })

      test('when its signal fires after the first part of a large object is stored', async () => {
        const controller = new AbortController()
        const put = store.put('cut', bufferBody(randomBytes(LARGE)), {
          signal: controller.signal,
          onProgress: () => controller.abort(),
        })
        await expectCode(put, 'object_store_unavailable')
        await expectNothingAt('cut')
      })

      test('and the same key can be stored afterwards', async () => {
        const broken: ObjectBody = { size: LARGE, read: async () => Buffer.alloc(0) }
        await expectCode(store.put('again', broken), 'object_store_error')
        await store.put('again', bufferBody(small))
        await expectBytes(store, 'again', small)
      })
    })

    describe('nothing waits for ever (invariant 13)', () => {
      test.each([
        ['small', 1000],
        ['large', LARGE],
      ])('a put of a %s object ends at its deadline, and leaves nothing', async (_, size) => {
        const impatient = open({ deadlineMs: 300, slowestBytesPerSecond: 1e9 })
        const read = (offset: number, length: number) =>
          offset + length >= size ? new Promise<Buffer>(() => {}) : Promise.resolve(Buffer.alloc(length))
        await expectCode(impatient.put('stuck', { size, read }), 'object_store_unavailable')
        await expectNothingAt('stuck')
      })

      test('every call honours a signal that has fired', async () => {
        await store.put('there', bufferBody(small))
        const signal = AbortSignal.abort(new CellError('shutting_down', 'The node is shutting down.'))
        await expectCode(store.get('there', { signal }), 'shutting_down')
        await expectCode(store.head('there', { signal }), 'shutting_down')
        await expectCode(collectAll(store.list('', { signal })), 'shutting_down')
        await expectCode(store.delete('there', { signal }), 'shutting_down')
        await expectCode(store.sweepUploads('', 0, { signal }), 'shutting_down')
        await expectBytes(store, 'there', small)
      })

      test('a body that is being read ends when the signal fires', async () => {
        await store.put('long', bufferBody(randomBytes(4 * MIB)))
        const controller = new AbortController()
        const content = await store.get('long', { signal: controller.signal })
        const reading = (async () => {
          for await (const _ of content?.body ?? []) controller.abort()
        })()
        await expectCode(reading, 'object_store_unavailable')
      })

      test('a closed store says so', async () => {
        await store.put('there', bufferBody(small))
        const closing = open()
        await closing.close()
        await expectCode(closing.head('there'), 'store_closed')
        await expectCode(closing.put('other', bufferBody(small)), 'store_closed')
        await expectCode(closing.get('there'), 'store_closed')
        await expectCode(collectAll(closing.list('')), 'store_closed')
        await expectNothingStored(['there'])
      })

      async function expectNothingStored(but: string[]): Promise<void> {
        expect(await keysOf(store, '')).toEqual(but)
      }
    })

    listingContract({
      get store() {
        return store
      },
      get subject() {
        return subject
      },
    })

    test('names itself and fails without a path or a credential in any message', async () => {
      for (const secret of subject.secrets.filter((each) => !each.startsWith('/'))) {
        expect(store.url).not.toContain(secret)
      }
      await store.put('there', bufferBody(small))
      const failures = await Promise.allSettled([
        store.put('there', bufferBody(small)),
        store.put('..', bufferBody(small)),
        store.put('broken', { size: 10, read: async () => Buffer.alloc(1) }),
        store.get('there', { range: { last: -1 } }),
      ])
      for (const failure of failures) {
        if (failure.status === 'fulfilled') expect.fail('each of these has to fail')
        expect(failure.reason).toBeInstanceOf(CellError)
        for (const secret of subject.secrets) expect(String(failure.reason.message)).not.toContain(secret)
      }
    })
  })
}
