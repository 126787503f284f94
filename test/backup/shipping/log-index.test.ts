import { expect, test } from 'vitest'
import { FileObjectStore } from '../../../src/backup/object-store/file/file-object-store.ts'
import { bufferBody } from '../../../src/backup/object-store/object-store.ts'
import { LogIndex } from '../../../src/backup/shipping/log-index.ts'
import { logKey } from '../../../src/backup/versions/object-keys.ts'
import { LaggingStore } from '../../support/backup/object-store-decorators.ts'
import { tempDirectory } from '../../support/temp-directory.ts'

/** Starts of a node that had nothing to ship take epochs too. */
const IDLE_STARTS = 12

test.each([0, 1, 2, 3, 4])(
  'log objects are found although the listing shows only the first %i, also after many idle starts (invariant 14)',
  async (shown) => {
    const store = new LaggingStore(new FileObjectStore({ root: tempDirectory('cellstore-log-index') }))
    const later = 2 + IDLE_STARTS
    const keys = [
      { epoch: 1, number: 1 },
      { epoch: 1, number: 2 },
      { epoch: later, number: 1 },
      { epoch: later, number: 2 },
    ].map(logKey)
    for (const key of keys) await store.put(key, bufferBody(Buffer.from('a log object')))
    store.hide(keys.slice(shown))
    const index = new LogIndex(store, 'a store', () => later + 2)
    expect((await index.after(null)).map(({ key }) => key)).toEqual(keys)
  },
)
