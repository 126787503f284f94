import { setImmediate as turnOfTheLoop } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { addRow, createLedger, ScratchPlace } from '../support/backup/scratch-store.ts'
import { isAtDisk } from '../support/fake-clock.ts'
import { filesBelow } from '../support/temp-directory.ts'
import { until } from '../support/until.ts'

const EVERY_MS = 600
const WITHIN_MS = 1_000
const STEP_MS = 60
const LONG_MS = 3_000
const QUIET_TURNS = 50

/** What was begun is over: for some turns of the event loop nothing of it waits for the disk. */
async function diskAtRest(): Promise<void> {
  for (let quiet = 0; quiet < QUIET_TURNS; quiet++) {
    await turnOfTheLoop()
    if (isAtDisk()) quiet = 0
  }
}

async function storeAtRest() {
  const place = new ScratchPlace()
  const store = await place.create()
  const versions = () =>
    filesBelow(place.objects).filter((key) => key.startsWith(`snapshots/${store.id}/backup-`))
  store.accounts.create()
  await store.core.catalogStored()
  return { place, store, versions }
}

test('many changes of the catalog make few versions', async () => {
  const { place, store, versions } = await storeAtRest()
  const before = versions().length
  for (let ms = 0; ms < LONG_MS; ms += STEP_MS) {
    store.accounts.create()
    place.clock.advance(STEP_MS)
    await diskAtRest()
  }
  expect(versions().length - before).toBeGreaterThan(0)
  expect(versions().length - before).toBeLessThanOrEqual(LONG_MS / EVERY_MS)
})

test('the last version of a cell that is deleted makes none of the catalog: that follows within a second', async () => {
  const { place, store, versions } = await storeAtRest()
  const cell = createLedger(store)
  addRow(cell, 'one')
  const before = versions().length
  await store.backups.beforeDeletion(cell.id)
  store.deleteCell(cell.id)
  expect(filesBelow(place.objects).some((key) => key.startsWith(`snapshots/${cell.id}/backup-`))).toBe(true)
  expect(versions()).toHaveLength(before)
  place.clock.advance(WITHIN_MS)
  await until(() => versions().length === before + 1, 'the catalog is stored')
})
