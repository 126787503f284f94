import Database from 'better-sqlite3'
import { describe, expect, test } from 'vitest'
import { bufferBody } from '../../../src/backup/object-store/object-store.ts'
import { versionOf } from '../../../src/backup/versions/object-keys.ts'
import { RecordingStore } from '../../support/backup/object-store-decorators.ts'
import { addRow, createLedger, notes, ScratchPlace } from '../../support/backup/scratch-store.ts'

const END_OF_TIME = 'backup-99991231T235959.999Z'
const WEEK_MS = 7 * 86_400_000

const place = ScratchPlace.perTest()

function putForeign(version: string): Promise<void> {
  return place.folder().put(version, bufferBody(Buffer.from('put here by someone else')))
}

describe('An object of someone else with a stamp ahead of the clock', () => {
  test.each([
    ['at the end of time', () => END_OF_TIME],
    ['of next week', (cellId: string) => versionOf(cellId, place.clock.now() + WEEK_MS).split('/')[2]],
  ])('%s changes nothing for later backups, listings and restores', async (_, stampOf) => {
    const store = await place.create()
    const cell = createLedger(store)
    addRow(cell, 'first')
    const first = await store.backups.snapshot(cell.id)
    await putForeign(`snapshots/${cell.id}/${stampOf(cell.id)}`)
    addRow(cell, 'second')
    const second = await store.backups.incremental(cell.id)
    const third = await store.backups.snapshot(cell.id)
    expect(third.createdAt - place.clock.now()).toBeLessThan(1_000)
    const { backups } = await store.backups.list(cell.id)
    expect(backups.map(({ version }) => version)).toEqual([third.version, second.version, first.version])
    expect((await store.backups.latest(cell.id))?.version).toBe(third.version)
    expect((await store.backups.restore(cell.id)).version).toBe(third.version)
    expect(notes(cell)).toEqual(['first', 'second'])
    expect((await store.backups.snapshot(cell.id)).version > third.version).toBe(true)
  })

  test('is read once for a listing, and versions of this store with a stamp ahead cost one read at most', async () => {
    const objectStore = new RecordingStore(place.folder())
    const store = await place.create({ objectStore })
    const cell = createLedger(store)
    for (let i = 0; i < 5; i++) await store.backups.snapshot(cell.id)
    await store.close()
    place.clock.step(-WEEK_MS)
    const again = await place.open({ objectStore })
    objectStore.forget()
    const { backups } = await again.backups.list(cell.id, { limit: 1 })
    expect(backups).toHaveLength(1)
    const reads = objectStore.calls.filter(({ call, key }) => call === 'get' && key.includes(cell.id))
    expect(reads).toHaveLength(1)
  })
})

test('a version in local.db that is none is not believed', async () => {
  const store = await place.create()
  const cell = createLedger(store)
  const first = await store.backups.snapshot(cell.id)
  await store.close()
  const state = new Database(place.paths.localState)
  state
    .prepare('UPDATE backup_progress SET last_version = ?, chain = ? WHERE cell_id = ?')
    .run(`snapshots/${cell.id}/backup-+0100000101T000000.000Z`, '{"versions":["nothing"]}', cell.id)
  state.close()
  const again = await place.open()
  addRow(again.openCell(cell.id), 'later')
  const second = await again.backups.incremental(cell.id)
  expect(second.baseVersion).toBeNull()
  const { backups } = await again.backups.list(cell.id)
  expect(backups.map(({ version }) => version)).toEqual([second.version, first.version])
})

test('a clock that was once far ahead leaves the order of versions ahead, and no future time', async () => {
  const store = await place.create()
  const cell = createLedger(store)
  place.clock.step(52 * WEEK_MS)
  const { version: ahead } = await store.backups.snapshot(cell.id)
  place.clock.step(-52 * WEEK_MS)
  const now = place.clock.now()
  const { version, createdAt } = await store.backups.snapshot(cell.id)
  expect(version > ahead).toBe(true)
  expect(createdAt).toBe(now)
  const { backups } = await store.backups.list(cell.id)
  expect(backups.map((each) => each.version)).toEqual([version, ahead])
  expect(backups[0]?.createdAt).toBe(now)
})
