import fs from 'node:fs'
import path from 'node:path'
import { describe, expect, test } from 'vitest'
import type { ObjectEntry } from '../../../src/backup/object-store/object-store.ts'
import { ofFence, PassingStore } from '../../support/backup/object-store-decorators.ts'
import { ScratchPlace } from '../../support/backup/scratch-store.ts'
import { filesBelow } from '../../support/temp-directory.ts'
import { rejectedBy } from '../../support/thrown.ts'

/** A bucket whose listing shows only what `shows` lets through. */
class LaggingStore extends PassingStore {
  shows: (key: string) => boolean = () => false

  override async *list(prefix: string): AsyncGenerator<ObjectEntry> {
    for await (const entry of super.list(prefix)) if (this.shows(entry.key)) yield entry
  }
}

const DAY_MS = 86_400_000

const place = ScratchPlace.perTest()

function firstCatalog(): string {
  return JSON.parse(fs.readFileSync(path.join(place.objects, 'store.json'), 'utf8')).first_catalog
}

/** A store whose catalog has changed this often, all of it in the bucket. */
async function storeWithChanges(changes: number) {
  const store = await place.create()
  await store.core.catalogStored()
  for (let i = 0; i < changes; i++) {
    store.accounts.create()
    await store.core.catalogStored()
  }
  return store
}

describe('The first catalog', () => {
  test('has the name that store.json gives it, and is never pruned', async () => {
    const store = await storeWithChanges(40)
    for (let i = 0; i < 3; i++) {
      place.clock.advance(800 * DAY_MS)
      await store.retention?.prune(store.id)
    }
    const kept = filesBelow(place.objects).filter((file) => file.includes(store.id))
    expect(kept).toContain(firstCatalog())
    expect(kept.length).toBeLessThan(40)
  })

  test('is missing in an empty listing that lags: no start forks history', async () => {
    const store = await storeWithChanges(2)
    await store.close()
    place.loseData()
    const objects = () => filesBelow(place.objects).filter((file) => !ofFence(file))
    const before = objects()
    const lagging = new LaggingStore(place.folder())
    for (const start of ['open', 'openOrCreate'] as const) {
      const error = await rejectedBy(place[start]({ objectStore: lagging, objectStoreWaitMs: 1 }))
      expect(error.code).toBe('object_store_unavailable')
    }
    expect(objects()).toEqual(before)
    expect(fs.existsSync(place.data)).toBe(false)
    // Once the listing has caught up, the same start succeeds.
    lagging.shows = () => true
    const again = await place.openOrCreate({ objectStore: lagging })
    expect(again.accounts.list()).toHaveLength(2)
  })

  test.each(['empty', 'without the first catalog'])(
    'is missing in a copy that is %s: the start is refused',
    async (how) => {
      const store = await storeWithChanges(2)
      await store.close()
      place.loseData()
      if (how === 'empty') fs.rmSync(path.join(place.objects, 'snapshots'), { recursive: true })
      else fs.rmSync(path.join(place.objects, firstCatalog()))
      const error = await rejectedBy(place.openOrCreate())
      expect(error).toMatchObject({
        code: 'object_store_mismatch',
        message: expect.stringContaining('complete it'),
      })
      expect(fs.existsSync(place.data)).toBe(false)
    },
  )

  test('is unknown where an earlier cellstore claimed the prefix: the store still opens and recovers', async () => {
    const store = await storeWithChanges(2)
    await store.close()
    const file = path.join(place.objects, 'store.json')
    const { first_catalog: _, checksum: __, ...earlier } = JSON.parse(fs.readFileSync(file, 'utf8'))
    fs.writeFileSync(file, JSON.stringify(earlier))
    const here = await place.open()
    here.accounts.create()
    await here.core.catalogStored()
    await here.close()
    place.loseData()
    const again = await place.open()
    expect(again.accounts.list()).toHaveLength(3)
  })
})
