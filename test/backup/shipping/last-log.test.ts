import { createHash } from 'node:crypto'
import { describe, expect, test } from 'vitest'
import { FileObjectStore } from '../../../src/backup/object-store/file/file-object-store.ts'
import {
  bufferBody,
  type GetOptions,
  type ObjectStore,
} from '../../../src/backup/object-store/object-store.ts'
import { findLastLog, sha256OfObject } from '../../../src/backup/shipping/stored/last-log.ts'
import { type LogNumber, logKey } from '../../../src/backup/versions/object-keys.ts'
import { LaggingStore, PassingStore } from '../../support/backup/object-store-decorators.ts'
import { tempDirectory } from '../../support/temp-directory.ts'

/** A folder whose first answers come with one bit changed. */
class FlippingStore extends FileObjectStore {
  #left = 1

  override async get(key: string, options?: GetOptions) {
    const content = await super.get(key, options)
    if (content === undefined || this.#left-- <= 0) return content
    const { body } = content
    return { ...content, body: flipped(body) as typeof body }
  }
}

async function* flipped(body: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  for await (const chunk of body) yield chunk.map((byte) => byte ^ 1)
}

test('the hash of the last object is not that of an answer which came damaged (invariant 9)', async () => {
  const store = new FlippingStore({ root: tempDirectory('cellstore-last-log') })
  const bytes = Buffer.from('a log object')
  const key = logKey({ epoch: 1, number: 1 })
  await store.put(key, bufferBody(bytes))
  expect(await sha256OfObject(store, key)).toBe(createHash('sha256').update(bytes).digest('hex'))
  expect(await sha256OfObject(store, logKey({ epoch: 1, number: 2 }))).toBeUndefined()
})

class CountedStore extends PassingStore {
  lists = 0

  override list(...args: Parameters<ObjectStore['list']>): ReturnType<PassingStore['list']> {
    this.lists++
    return super.list(...args)
  }
}

describe('The newest log object', () => {
  const places: LogNumber[] = [
    ...[1, 2, 3].map((number) => ({ epoch: 1, number })),
    ...[1, 2, 3, 4, 5].map((number) => ({ epoch: 3, number })),
  ]

  /** What the next object would continue voids all after it, so none that counts may be overlooked. */
  test.each(places.map((_, shown) => shown))(
    'is found although the listing shows only the first %i (invariant 14)',
    async (shown) => {
      const store = new LaggingStore(new FileObjectStore({ root: tempDirectory('cellstore-last-log') }))
      for (const place of places) await store.put(logKey(place), bufferBody(Buffer.from('a log object')))
      store.hide(places.slice(shown).map(logKey))
      expect(await findLastLog(store, 5)).toEqual({ epoch: 3, number: 5 })
      expect(await findLastLog(store, 3)).toEqual({ epoch: 3, number: 5 })
      expect(await findLastLog(store, 2)).toEqual({ epoch: 1, number: 3 })
    },
  )

  test('is found with few listings from one that is known, whatever the epoch of that is', async () => {
    const store = new CountedStore(new FileObjectStore({ root: tempDirectory('cellstore-last-log') }))
    for (const place of places) await store.put(logKey(place), bufferBody(Buffer.from('a log object')))
    for (const known of places.filter(({ epoch }) => epoch === 3))
      expect(await findLastLog(store, 3, { known })).toEqual({ epoch: 3, number: 5 })
    expect(await findLastLog(store, 3, { known: { epoch: 1, number: 2 } })).toEqual({ epoch: 3, number: 5 })
    store.lists = 0
    expect(await findLastLog(store, 3, { known: { epoch: 3, number: 5 } })).toEqual({ epoch: 3, number: 5 })
    expect(store.lists).toBe(1)
  })
})
