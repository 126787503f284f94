import { beforeEach, describe, expect, test } from 'vitest'
import { FileObjectStore } from '../../../src/backup/object-store/file/file-object-store.ts'
import { bufferBody, type ObjectStore } from '../../../src/backup/object-store/object-store.ts'
import { LogRow } from '../../../src/backup/shipping/log/log-row.ts'
import { logKey } from '../../../src/backup/versions/object-keys.ts'
import { LaggingStore, RecordingStore } from '../../support/backup/object-store-decorators.ts'
import { tempDirectory } from '../../support/temp-directory.ts'

let store: RecordingStore
/** What the first object of each epoch continues. */
let previous: Map<string, string | null | undefined>
beforeEach(() => {
  store = new RecordingStore(new FileObjectStore({ root: tempDirectory('cellstore-log-row') }))
  previous = new Map()
})

const key = (epoch: number, number: number) => logKey({ epoch, number })

/** Objects 1 to `count` of an epoch, which goes on from another one's. */
async function put(epoch: number, count: number, from: string | null | undefined): Promise<void> {
  previous.set(key(epoch, 1), from)
  for (let number = 1; number <= count; number++)
    await store.put(key(epoch, number), bufferBody(Buffer.from('log')))
}

const newRow = (objects: ObjectStore = store) =>
  new LogRow(
    objects,
    async (ref) => previous.get(ref.key),
    () => 9,
  )

async function keysAfter(row: LogRow, after = ''): Promise<string[]> {
  const refs = await row.after(after, {})
  return [...refs].map((ref) => ref.key + (ref.isRemoved ? ' removed' : ref.isMissing ? ' missing' : ''))
}

describe('The row of log objects', () => {
  test('has what each epoch has up to the object that a later one goes on from', async () => {
    await put(1, 3, null)
    await put(4, 2, key(1, 2))
    const row = newRow()
    expect(await keysAfter(row)).toEqual([key(1, 1), key(1, 2), key(4, 1), key(4, 2)])
    expect(await keysAfter(row, key(1, 2))).toEqual([key(4, 1), key(4, 2)])
  })

  test('leaves out what was stored late, also of an epoch that is void itself', async () => {
    await put(1, 1, null)
    const row = newRow()
    expect(await keysAfter(row)).toEqual([key(1, 1)])
    // Each slept in its PUT. The node of epoch 2 had not seen the second object, that of epoch 3 had.
    await put(2, 1, key(1, 1))
    expect(await keysAfter(row)).toEqual([key(1, 1), key(2, 1)])
    await store.put(key(1, 2), bufferBody(Buffer.from('log')))
    await put(3, 1, key(1, 2))
    for (const each of [row, newRow()])
      expect(await keysAfter(each)).toEqual([key(1, 1), key(1, 2), key(3, 1)])
  })

  test('says of a gap that its last object is missing, and of the oldest ones that they are removed', async () => {
    await put(1, 6, null)
    const row = newRow()
    await keysAfter(row)
    await store.delete(key(1, 1))
    await store.delete(key(1, 4))
    const left = [key(1, 2), key(1, 3), `${key(1, 4)} missing`, key(1, 5), key(1, 6)]
    for (const each of [row, newRow()])
      expect(await keysAfter(each)).toEqual([`${key(1, 1)} removed`, ...left])
    // The object before is there: nothing after it was removed for its age.
    expect(await keysAfter(newRow(), key(1, 3))).toEqual(left.slice(2))
  })

  test('no longer has the newest object once its node has removed it', async () => {
    await put(1, 3, null)
    const row = newRow()
    await keysAfter(row)
    await store.delete(key(1, 3))
    expect(await keysAfter(row)).toEqual([key(1, 1), key(1, 2)])
    await put(2, 1, key(1, 2))
    expect(await keysAfter(row, key(1, 1))).toEqual([key(1, 2), key(2, 1)])
    await store.delete(key(2, 1))
    expect(await keysAfter(row, key(1, 1))).toEqual([key(1, 2)])
  })

  test('has the newest object also while a listing lacks it', async () => {
    await put(1, 3, null)
    const lagging = new LaggingStore(store)
    const row = newRow(lagging)
    expect(await keysAfter(row)).toEqual([key(1, 1), key(1, 2), key(1, 3)])
    lagging.hide([key(1, 3)])
    expect(await keysAfter(row)).toEqual([key(1, 1), key(1, 2), key(1, 3)])
  })

  test('goes on below an object that cannot be read, or that names none before it', async () => {
    await put(1, 2, null)
    await put(2, 1, undefined)
    await put(3, 1, key(3, 1))
    expect(await keysAfter(newRow())).toEqual([key(1, 1), key(1, 2), key(2, 1), key(3, 1)])
  })

  test('asks for what is new only', async () => {
    await put(9, 3, null)
    const row = newRow()
    await keysAfter(row)
    store.forget()
    await keysAfter(row, key(9, 2))
    expect(store.calls).toEqual([
      { call: 'head', key: key(9, 1) },
      { call: 'list', key: 'log/' },
      { call: 'head', key: key(9, 4) },
    ])
  })
})
