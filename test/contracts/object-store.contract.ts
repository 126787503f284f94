import { createHash, randomBytes } from 'node:crypto'
import { setImmediate } from 'node:timers/promises'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import type { Patience } from '../../src/backup/call-deadline.ts'
import { bufferBody, type ObjectBody, type ObjectStore } from '../../src/backup/object-store.ts'
import { CellError, type CellErrorCode } from '../../src/errors.ts'

/** An empty place for objects, and what this kind of store can promise. */
export interface Subject {
  /** A store over the place; each call gives another one over the same. */
  open(patience?: Partial<Patience>): ObjectStore
  /** Leaves an upload of the key behind, as a process does that is killed in the middle of one. */
  strandUpload(key: string): Promise<void>
  /** Puts an object that holds its own key, by the shortest way there is. */
  fill(key: string): Promise<void>
  /** Text that no message may hold: folders, credentials. */
  secrets: string[]
  /** Whether a key is kept by one writer also against writers of other stores, for small objects and for large. */
  excludesOtherStores: { small: boolean; large: boolean }
  /** Whether unfinished uploads can be found and ended. */
  endsUploads: boolean
  dispose(): Promise<void>
}

const MIB = 1024 * 1024
/** More than two parts of 8 MiB, and no whole number of them. */
const LARGE = 20 * MIB + 12_345
const small = Buffer.from('a small object')
const FAR_FUTURE_MS = Date.UTC(2100, 0)

/** The promises of `ObjectStore`, as tests. Every implementation passes them. */
export function objectStoreContract(name: string, make: () => Promise<Subject>): void {
  describe(`${name} keeps the contract of an object store`, () => {
    let subject: Subject
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
      it('gives back exactly the bytes that were stored, and their number', async () => {
        await store.put('snapshots/a/backup-1', bufferBody(small))
        await expectBytes(store, 'snapshots/a/backup-1', small)
        expect(await store.head('snapshots/a/backup-1')).toEqual({ size: small.length })
      })

      it('stores an empty object, which is not the same as none', async () => {
        await store.put('empty', bufferBody(Buffer.alloc(0)))
        expect(await store.head('empty')).toEqual({ size: 0 })
        expect(await store.get('empty')).toMatchObject({ size: 0 })
        await expectBytes(store, 'empty', Buffer.alloc(0))
        expect(await entriesOf(store, '')).toEqual([{ key: 'empty', size: 0 }])
      })

      it('stores a large object of several parts, and reports the bytes stored so far', async () => {
        const bytes = randomBytes(LARGE)
        const progress: number[] = []
        await store.put('large', bufferBody(bytes), { onProgress: (count) => progress.push(count) })
        expect(await store.head('large')).toEqual({ size: LARGE })
        expect(await sha256Of(store, 'large')).toBe(createHash('sha256').update(bytes).digest('hex'))
        expect(progress.length).toBeGreaterThan(1)
        expect(progress).toEqual(progress.toSorted((a, b) => a - b))
        expect(progress.at(-1)).toBe(LARGE)
      })

      it('stores objects side by side, large and small', async () => {
        const bodies = new Map([1, 2, 3].map((n) => [`many/${n}`, randomBytes(n === 2 ? LARGE : n * 1000)]))
        await Promise.all([...bodies].map(([key, bytes]) => store.put(key, bufferBody(bytes))))
        for (const [key, bytes] of bodies) {
          expect(await sha256Of(store, key)).toBe(createHash('sha256').update(bytes).digest('hex'))
        }
      })

      it.each([
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

      it.each([
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

      it('answers an absent object with undefined', async () => {
        await store.put('there/is', bufferBody(small))
        for (const key of ['absent', 'there/is-not', 'there', 'there/is/more']) {
          expect(await store.head(key)).toBeUndefined()
          expect(await store.get(key)).toBeUndefined()
          expect(await store.get(key, { range: { offset: 0, length: 5 } })).toBeUndefined()
          expect(await store.get(key, { range: { offset: 0, length: 0 } })).toBeUndefined()
          expect(await store.get(key, { range: { last: 5 } })).toBeUndefined()
        }
      })

      it('goes on after a reader that stopped in the middle', async () => {
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
    })

    describe('reading a range', () => {
      const bytes = Buffer.from(Array.from({ length: 1000 }, (_, index) => index % 251))

      it.each([
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

      it('of an empty object is empty', async () => {
        await store.put('empty', bufferBody(Buffer.alloc(0)))
        for (const range of [{ offset: 0, length: 5 }, { offset: 3, length: 5 }, { last: 5 }]) {
          const content = await store.get('empty', { range })
          expect(content?.size).toBe(0)
          expect(await collect(content?.body ?? [])).toEqual(Buffer.alloc(0))
        }
      })

      it.each([
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
      it.each([
        ['small', small],
        ['large', randomBytes(LARGE)],
      ])('a second put of a %s object is refused and changes nothing', async (_, second) => {
        await store.put('once', bufferBody(Buffer.from('the first')))
        await expectCode(store.put('once', bufferBody(second)), 'object_exists')
        await expectCode(open().put('once', bufferBody(second)), 'object_exists')
        await expectBytes(store, 'once', Buffer.from('the first'))
        if (subject.endsUploads) expect(await store.sweepUploads('', FAR_FUTURE_MS)).toBe(0)
      })

      it('of puts of one key at the same time exactly one wins', async () => {
        await expectOneWinner(
          [1, 2, 3, 4].map((n) => [store, Buffer.alloc(1000, n)] as const),
          'contested',
        )
      })

      it('of large puts of one key at the same time exactly one wins', async () => {
        await expectOneWinner(
          [1, 2].map((n) => [store, Buffer.alloc(LARGE, n)] as const),
          'contested',
        )
        if (subject.endsUploads) expect(await store.sweepUploads('', FAR_FUTURE_MS)).toBe(0)
      })

      it('of puts of one key by several stores exactly one wins, where that can be promised', async (test) => {
        test.skip(!subject.excludesOtherStores.small, 'the endpoint does not honour conditional writes')
        await expectOneWinner(
          [1, 2, 3, 4].map((n) => [open(), Buffer.alloc(1000, n)] as const),
          'contested',
        )
      })

      it('of large puts of one key by several stores exactly one wins, where that can be promised', async (test) => {
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
      it.each([
        ['small', 1000],
        ['large', LARGE],
      ])('when the bytes of a %s object end early', async (_, size) => {
        const read = async (offset: number, length: number) =>
          Buffer.alloc(offset + length >= size ? length - 1 : length)
        await expectCode(store.put('short', { size, read }), 'object_store_error')
        await expectNothingAt('short')
      })

      it.each([
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

      it.each([
        ['small', 1000],
        ['large', LARGE],
      ])('when its signal fires before a %s object is begun', async (_, size) => {
        const signal = AbortSignal.abort(new CellError('shutting_down', 'The node is shutting down.'))
        await expectCode(store.put('late', bufferBody(Buffer.alloc(size)), { signal }), 'shutting_down')
        await expectNothingAt('late')
      })

      it.each([
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

      it('when its signal fires after the first part of a large object is stored', async () => {
        const controller = new AbortController()
        const put = store.put('cut', bufferBody(randomBytes(LARGE)), {
          signal: controller.signal,
          onProgress: () => controller.abort(),
        })
        await expectCode(put, 'object_store_unavailable')
        await expectNothingAt('cut')
      })

      it('and the same key can be stored afterwards', async () => {
        const broken: ObjectBody = { size: LARGE, read: async () => Buffer.alloc(0) }
        await expectCode(store.put('again', broken), 'object_store_error')
        await store.put('again', bufferBody(small))
        await expectBytes(store, 'again', small)
      })
    })

    describe('nothing waits for ever (invariant 13)', () => {
      it.each([
        ['small', 1000],
        ['large', LARGE],
      ])('a put of a %s object ends at its deadline, and leaves nothing', async (_, size) => {
        const impatient = open({ deadlineMs: 300, slowestBytesPerSecond: 1e9 })
        const read = (offset: number, length: number) =>
          offset + length >= size ? new Promise<Buffer>(() => {}) : Promise.resolve(Buffer.alloc(length))
        await expectCode(impatient.put('stuck', { size, read }), 'object_store_unavailable')
        await expectNothingAt('stuck')
      })

      it('every call honours a signal that has fired', async () => {
        await store.put('there', bufferBody(small))
        const signal = AbortSignal.abort(new CellError('shutting_down', 'The node is shutting down.'))
        await expectCode(store.get('there', { signal }), 'shutting_down')
        await expectCode(store.head('there', { signal }), 'shutting_down')
        await expectCode(collectAll(store.list('', { signal })), 'shutting_down')
        await expectCode(store.delete('there', { signal }), 'shutting_down')
        await expectCode(store.sweepUploads('', 0, { signal }), 'shutting_down')
        await expectBytes(store, 'there', small)
      })

      it('a body that is being read ends when the signal fires', async () => {
        await store.put('long', bufferBody(randomBytes(4 * MIB)))
        const controller = new AbortController()
        const content = await store.get('long', { signal: controller.signal })
        const reading = (async () => {
          for await (const _ of content?.body ?? []) controller.abort()
        })()
        await expectCode(reading, 'object_store_unavailable')
      })

      it('a closed store says so', async () => {
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

    describe('listing', () => {
      async function fill(keys: string[]): Promise<void> {
        const rest = keys.values()
        const work = async () => {
          for (const key of rest) await subject.fill(key)
        }
        await Promise.all(Array.from({ length: 16 }, work))
      }

      it('an empty store gives nothing', async () => {
        expect(await keysOf(store, '')).toEqual([])
        expect(await keysOf(store, 'snapshots/')).toEqual([])
      })

      it('gives keys in the order of their UTF-8 bytes, across folders, with their sizes', async () => {
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
        expect(await entriesOf(store, '')).toEqual(
          ordered.map((key) => ({ key, size: Buffer.byteLength(key) })),
        )
      })

      it('tells a prefix that names a folder from one that begins a name', async () => {
        await fill(['a/b', 'a/bc', 'a/b.d/e', 'ab', 'a/c', 'b/a'])
        expect(await keysOf(store, 'a/b')).toEqual(['a/b', 'a/b.d/e', 'a/bc'])
        expect(await keysOf(store, 'a/b.d/')).toEqual(['a/b.d/e'])
        expect(await keysOf(store, 'a/')).toEqual(['a/b', 'a/b.d/e', 'a/bc', 'a/c'])
        expect(await keysOf(store, 'a')).toEqual(['a/b', 'a/b.d/e', 'a/bc', 'a/c', 'ab'])
        expect(await keysOf(store, 'a/b/')).toEqual([])
        expect(await keysOf(store, 'c')).toEqual([])
      })

      it('begins after a given key, whether that is there or not', async () => {
        await fill(['a/1', 'a/2', 'a/3', 'b/1', 'c'])
        expect(await keysOf(store, '', 'a/2')).toEqual(['a/3', 'b/1', 'c'])
        expect(await keysOf(store, '', 'a/25')).toEqual(['a/3', 'b/1', 'c'])
        expect(await keysOf(store, '', 'a')).toEqual(['a/1', 'a/2', 'a/3', 'b/1', 'c'])
        expect(await keysOf(store, '', 'c')).toEqual([])
        expect(await keysOf(store, 'a/', 'a/2')).toEqual(['a/3'])
        expect(await keysOf(store, 'b/', 'a/2')).toEqual(['b/1'])
        expect(await keysOf(store, 'a/', 'b')).toEqual([])
      })

      it('gives every key of many pages once, and stops when the reader stops', async () => {
        const keys = Array.from(
          { length: 1100 },
          (_, n) => `snapshots/cell/backup-${String(n).padStart(5, '0')}`,
        )
        await fill(keys)
        expect(await keysOf(store, 'snapshots/cell/')).toEqual(keys)
        expect(await keysOf(store, '', keys[1049])).toEqual(keys.slice(1050))
        for await (const { key } of store.list('')) {
          expect(key).toBe(keys[0])
          break
        }
      }, 120_000)

      it.each(['/a', '../', 'a/../b', 'a//', '.cellstore/'])('refuses the prefix %j', async (prefix) => {
        await expectCode(keysOf(store, prefix), 'object_store_error')
      })
    })

    describe('deleting', () => {
      it('removes that object alone, and is no error for an absent one', async () => {
        for (const key of ['a/b', 'a/bc', 'a/c/d']) await store.put(key, bufferBody(small))
        await store.delete('a/b')
        await store.delete('a/b')
        await store.delete('a/never')
        await store.delete('a')
        await store.delete('a/bc/more')
        expect(await keysOf(store, '')).toEqual(['a/bc', 'a/c/d'])
        expect(await store.get('a/b')).toBeUndefined()
      })

      it('frees the key', async () => {
        await store.put('a/b', bufferBody(small))
        await store.delete('a/b')
        await store.put('a/b', bufferBody(Buffer.from('anew')))
        await expectBytes(store, 'a/b', Buffer.from('anew'))
      })
    })

    describe('sweeping uploads', () => {
      it('ends those under the prefix that are older, and no object', async (test) => {
        test.skip(!subject.endsUploads, 'the endpoint can not list unfinished uploads')
        await store.put('a/done', bufferBody(small))
        for (const key of ['a/one', 'a/two', 'ab', 'b/one']) await subject.strandUpload(key)
        expect(await keysOf(store, '')).toEqual(['a/done'])
        expect(await store.sweepUploads('', 0)).toBe(0)
        expect(await store.sweepUploads('a/', FAR_FUTURE_MS)).toBe(2)
        expect(await store.sweepUploads('a/', FAR_FUTURE_MS)).toBe(0)
        expect(await store.sweepUploads('', FAR_FUTURE_MS)).toBe(2)
        expect(await keysOf(store, '')).toEqual(['a/done'])
        await expectBytes(store, 'a/done', small)
      })

      it('says so where uploads can not be listed', async (test) => {
        test.skip(subject.endsUploads, 'the store can end uploads')
        await expectCode(store.sweepUploads('', FAR_FUTURE_MS), 'object_store_error')
      })

      it('does not keep a stranded upload from being done again', async () => {
        await subject.strandUpload('a/one')
        await store.put('a/one', bufferBody(randomBytes(LARGE)))
        expect(await store.head('a/one')).toEqual({ size: LARGE })
      })
    })

    it('names itself and fails without a path or a credential in any message', async () => {
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

export async function expectCode(work: Promise<unknown>, code: CellErrorCode): Promise<void> {
  const outcome = await work.then(
    () => 'no error',
    (error: unknown) => error,
  )
  expect(outcome).toBeInstanceOf(CellError)
  expect(outcome).toMatchObject({ code })
}

async function collect(body: AsyncIterable<Uint8Array> | Iterable<Uint8Array>): Promise<Buffer> {
  const chunks: Uint8Array[] = []
  for await (const chunk of body) chunks.push(chunk)
  return Buffer.concat(chunks)
}

export async function collectAll<T>(items: AsyncIterable<T>): Promise<T[]> {
  const all: T[] = []
  for await (const item of items) all.push(item)
  return all
}

async function bytesOf(store: ObjectStore, key: string): Promise<Buffer> {
  const content = await store.get(key)
  expect(content).toBeDefined()
  return collect(content?.body ?? [])
}

/** Compares as buffers: a matcher that explains the difference takes seconds for a megabyte. */
export async function expectBytes(store: ObjectStore, key: string, expected: Uint8Array): Promise<void> {
  const stored = await bytesOf(store, key)
  expect(stored.equals(expected), `the bytes of ${key}`).toBe(true)
}

async function sha256Of(store: ObjectStore, key: string): Promise<string> {
  const hash = createHash('sha256')
  const content = await store.get(key)
  for await (const chunk of content?.body ?? []) hash.update(chunk)
  return hash.digest('hex')
}

async function entriesOf(store: ObjectStore, prefix: string) {
  return collectAll(store.list(prefix))
}

export async function keysOf(store: ObjectStore, prefix: string, after?: string): Promise<string[]> {
  const entries = await collectAll(store.list(prefix, { after }))
  return entries.map(({ key }) => key)
}
