import { setImmediate } from 'node:timers/promises'
import { expect, onTestFinished, test } from 'vitest'
import { ObjectReader, RANGE_BYTES } from '../../../src/backup/archive/object-reader.ts'
import { FileObjectStore } from '../../../src/backup/object-store/file/file-object-store.ts'
import {
  bufferBody,
  type GetOptions,
  type ObjectContent,
} from '../../../src/backup/object-store/object-store.ts'
import { systemClock } from '../../../src/base/clock.ts'
import { CellError } from '../../../src/errors.ts'
import { PassingStore } from '../../support/backup/object-store-decorators.ts'
import { tempDirectory } from '../../support/temp-directory.ts'
import { turnsUntil } from '../../support/turns.ts'

/** Remembers the ranges that were asked for, and how many bodies were open at the same time. */
class RangesStore extends PassingStore {
  readonly ranges: GetOptions['range'][] = []
  open = 0
  openMost = 0
  /** Shortens or breaks a body: the offset of its range, and what it gives. */
  fault: { offset: number; bytes: number; error?: CellError } | undefined

  override async get(key: string, options: GetOptions = {}): Promise<ObjectContent | undefined> {
    const { range } = options
    this.ranges.push(range)
    const content = await super.get(key, options)
    if (content === undefined) return undefined
    const isFaulty = range !== undefined && 'offset' in range && range.offset === this.fault?.offset
    const body = this.#watched(content.body, options.signal)
    return { size: content.size, body: isFaulty ? this.#faulty(body) : body }
  }

  async *#watched(body: AsyncIterable<Uint8Array>, signal?: AbortSignal) {
    this.openMost = Math.max(this.openMost, ++this.open)
    try {
      for await (const chunk of body) {
        signal?.throwIfAborted()
        await setImmediate()
        yield chunk
      }
    } finally {
      this.open--
    }
  }

  async *#faulty(body: AsyncIterable<Uint8Array>) {
    const { bytes, error } = this.fault as NonNullable<typeof this.fault>
    let left = bytes
    for await (const chunk of body) {
      yield chunk.subarray(0, left)
      left -= chunk.length
      if (left > 0) continue
      if (error !== undefined) throw error
      return
    }
  }
}

/** Bytes that tell their place. */
function numbered(length: number): Buffer {
  const bytes = Buffer.alloc(length)
  for (let at = 0; at + 4 <= length; at += 4) bytes.writeUInt32LE(at, at)
  return bytes
}

async function stored(objects: Record<string, Buffer>) {
  const store = new RangesStore(new FileObjectStore({ root: tempDirectory('cellstore-reader') }))
  onTestFinished(() => store.inner.close())
  for (const [key, bytes] of Object.entries(objects)) await store.put(key, bufferBody(bytes))
  return { store, reader: new ObjectReader(store, systemClock) }
}

async function collect(chunks: AsyncIterable<Uint8Array>): Promise<Buffer> {
  const copies: Buffer[] = []
  // The memory of a chunk may be used again.
  for await (const chunk of chunks) copies.push(Buffer.from(chunk))
  return Buffer.concat(copies)
}

test.each([1, RANGE_BYTES - 1, RANGE_BYTES])(
  'an object of %i bytes takes one request, without a range',
  async (size) => {
    const bytes = numbered(size)
    const { store, reader } = await stored({ small: bytes })
    expect((await collect(reader.read('small', size, 0, {}))).equals(bytes)).toBe(true)
    expect(store.ranges).toEqual([undefined])
  },
)

test('a large object comes in ranges, several at a time, and in order', async () => {
  const size = 6 * RANGE_BYTES + 12_345
  const bytes = numbered(size)
  const { store, reader } = await stored({ large: bytes })
  expect((await collect(reader.read('large', size, 0, {}))).equals(bytes)).toBe(true)
  expect(store.ranges).toHaveLength(7)
  expect(store.ranges.at(-1)).toEqual({ offset: 6 * RANGE_BYTES, length: 12_345 })
  expect(store.openMost).toBe(4)
  expect(reader.aheadBytes).toBe(0)
})

test('reading begins at any byte', async () => {
  const size = 2 * RANGE_BYTES + 1
  const bytes = numbered(size)
  const { store, reader } = await stored({ large: bytes })
  for (const offset of [1, RANGE_BYTES + 1, 2 * RANGE_BYTES, size])
    expect((await collect(reader.read('large', size, offset, {}))).equals(bytes.subarray(offset))).toBe(true)
  expect(store.ranges).toContainEqual({ offset: RANGE_BYTES + 1, length: RANGE_BYTES })
})

// A range of any length takes the memory of a whole one.
test.each([
  ['three ranges', 3 * RANGE_BYTES],
  ['a range and a short one', RANGE_BYTES + 1_000],
])(
  'however many objects of %s are read at once, the memory for ranges is bounded, and all readings end',
  async (_, size) => {
    const bytes = numbered(size)
    const { reader } = await stored({ large: bytes })
    let most = 0
    const readings = Array.from({ length: 20 }, async () => {
      let length = 0
      for await (const chunk of reader.read('large', size, 0, {})) {
        length += chunk.length
        most = Math.max(most, reader.aheadBytes)
      }
      return length
    })
    expect(await Promise.all(readings)).toEqual(Array.from({ length: 20 }, () => size))
    expect(most).toBe(4 * RANGE_BYTES)
    expect(reader.aheadBytes).toBe(0)
  },
)

test('who stops reading, or is cancelled, stops what is received ahead, and frees its memory', async () => {
  const size = 8 * RANGE_BYTES
  const { store, reader } = await stored({ large: numbered(size) })
  for await (const _ of reader.read('large', size, 0, {})) break
  expect([store.open, reader.aheadBytes]).toEqual([0, 0])
  const abort = new AbortController()
  const reading = collect(reader.read('large', size, 0, { signal: abort.signal }))
  reading.catch(() => {})
  await turnsUntil(() => store.open > 1, 'ranges are received')
  abort.abort(new CellError('busy', 'Enough.'))
  await expect(reading).rejects.toMatchObject({ code: 'busy' })
  expect([store.open, reader.aheadBytes]).toEqual([0, 0])
})

test.each([0, 2])(
  'a short range, the %i-th, ends the bytes there: none of a later place follows',
  async (nth) => {
    const size = 4 * RANGE_BYTES
    const bytes = numbered(size)
    const { store, reader } = await stored({ large: bytes })
    store.fault = { offset: nth * RANGE_BYTES, bytes: 1_000 }
    const got = await collect(reader.read('large', size, 0, {}))
    expect(got.equals(bytes.subarray(0, nth * RANGE_BYTES + 1_000))).toBe(true)
    expect([store.open, reader.aheadBytes]).toEqual([0, 0])
  },
)

test('a range that breaks off fails the reading where it broke off, and not earlier', async () => {
  const size = 4 * RANGE_BYTES
  const { store, reader } = await stored({ large: numbered(size) })
  const error = new CellError('object_store_unavailable', 'Gone.')
  store.fault = { offset: RANGE_BYTES, bytes: 5_000, error }
  let length = 0
  const reading = (async () => {
    for await (const chunk of reader.read('large', size, 0, {})) length += chunk.length
  })()
  await expect(reading).rejects.toBe(error)
  expect(length).toBe(RANGE_BYTES + 5_000)
  expect([store.open, reader.aheadBytes]).toEqual([0, 0])
})

test('an object that is not there is damage of the chain that names it', async () => {
  const { reader } = await stored({})
  await expect(reader.size('gone', {})).rejects.toMatchObject({ code: 'backup_corrupt', message: /missing/ })
  await expect(collect(reader.read('gone', 5, 0, {}))).rejects.toMatchObject({ code: 'backup_corrupt' })
})
