import { describe, expect, test } from 'vitest'
import { bufferBody } from '../../../src/backup/object-store/object-store.ts'
import { versionOf } from '../../../src/backup/versions/object-keys.ts'
import { VersionIndex } from '../../../src/backup/versions/version-index.ts'
import { archiveOf, manifestOf, memberOf } from '../../support/backup/archives.ts'
import { GatedStore, RecordingStore } from '../../support/backup/object-store-decorators.ts'
import { addRow, createLedger, ScratchPlace } from '../../support/backup/scratch-store.ts'
import { rejectedBy } from '../../support/thrown.ts'

const place = ScratchPlace.perTest()

describe('A listing', () => {
  test('shows what each backup answered, newest first', async () => {
    const store = await place.create()
    const cell = createLedger(store)
    const results = [await store.backups.snapshot(cell.id)]
    place.clock.advance(60_000)
    addRow(cell, 'one')
    results.unshift(await store.backups.incremental(cell.id))
    const { backups, nextCursor } = await store.backups.list(cell.id)
    expect(nextCursor).toBeNull()
    expect(backups).toEqual(
      results.map(({ version, kind, sizeBytes, createdAt, baseVersion }) => ({
        version,
        kind,
        sizeBytes,
        createdAt,
        baseVersion,
      })),
    )
    expect(await store.backups.latest(cell.id)).toEqual(backups[0])
  })

  test('comes in pages, each version once, also when backups are made and removed in between', async () => {
    const store = await place.create()
    const cell = createLedger(store)
    const made: string[] = []
    for (let i = 0; i < 7; i++) made.unshift((await store.backups.incremental(cell.id)).version)
    const seen: string[] = []
    let cursor: string | undefined
    for (let page = 0; ; page++) {
      const { backups, nextCursor } = await store.backups.list(cell.id, { limit: 2, cursor })
      expect(backups.length).toBeLessThanOrEqual(2)
      seen.push(...backups.map(({ version }) => version))
      if (page === 1) {
        await store.backups.snapshot(cell.id)
        await place.folder().delete(seen.at(-1) as string)
      }
      if (nextCursor === null) break
      cursor = nextCursor
    }
    // What rested on the one that was removed is gone with it; it was shown before.
    expect(seen).toEqual(made)
  })

  test('leaves out a version that a prune removes while others are looked at', async () => {
    const first = await place.create()
    const { id } = createLedger(first)
    const { version: old } = await first.backups.snapshot(id)
    const { version: newest } = await first.backups.snapshot(id)
    await first.close()
    const gated = new GatedStore(place.folder())
    const store = await place.open({ objectStore: gated })
    const index = store.core.destination?.index as VersionIndex
    gated.gates = (call, key) => call === 'get' && key === newest
    const listed = store.backups.list(id)
    await gated.arrival()
    await expect.poll(() => index.known(old)).toBeDefined()
    await place.folder().delete(old)
    index.forget(old)
    gated.open()
    expect((await listed).backups.map(({ version }) => version)).toEqual([newest])
  })

  test('has no next page when the last one is just full', async () => {
    const store = await place.create()
    const cell = createLedger(store)
    for (let i = 0; i < 4; i++) await store.backups.snapshot(cell.id)
    const first = await store.backups.list(cell.id, { limit: 2 })
    expect(first.nextCursor).not.toBeNull()
    const last = await store.backups.list(cell.id, { limit: 2, cursor: first.nextCursor ?? undefined })
    expect(last.backups).toHaveLength(2)
    expect(last.nextCursor).toBeNull()
  })

  test('sorts stamps with and without a fraction by time, over the edges of pages', async () => {
    const store = await place.create()
    const cell = createLedger(store)
    const stamps = ['20260101T000000Z', '20260101T000000.001Z', '20260101T000000.999Z', '20260101T000001Z']
    for (const stamp of stamps) {
      const version = `snapshots/${cell.id}/backup-${stamp}`
      const manifest = manifestOf({ store_id: store.id, cell_id: cell.id, version })
      await place
        .folder()
        .put(version, bufferBody(await archiveOf([memberOf('cell.db', Buffer.from('x'))], manifest)))
    }
    const seen: string[] = []
    for (let cursor: string | undefined | null; cursor !== null; ) {
      const page = await store.backups.list(cell.id, { limit: 1, cursor })
      seen.push(...page.backups.map(({ version }) => version.split('backup-')[1] as string))
      cursor = page.nextCursor
    }
    expect(seen).toEqual([...stamps].reverse())
  })

  test('refuses a bad limit and a bad cursor', async () => {
    const store = await place.create()
    const cell = createLedger(store)
    for (const limit of [0, -1, 1.5, 1_001, Number.NaN]) {
      const error = await rejectedBy(store.backups.list(cell.id, { limit }))
      expect(error).toMatchObject({ code: 'invalid_request', details: { field: 'limit' } })
    }
    const other = versionOf('5d2c0f11-1c1b-4c7e-8a44-3b5a1f6e7d22', 0)
    for (const cursor of [
      '',
      'x',
      Buffer.from(other).toString('base64url'),
      `${Buffer.from(versionOf(cell.id, 0)).toString('base64url')}=`,
    ]) {
      const error = await rejectedBy(store.backups.list(cell.id, { cursor }))
      expect(error).toMatchObject({ code: 'invalid_request', details: { field: 'cursor' } })
    }
  })

  test('is empty for a cell without backups, and cell_not_found for one that nobody knows', async () => {
    const store = await place.create()
    const nothing = { backups: [], nextCursor: null, restorable: [] }
    expect(await store.backups.list(store.createCell().id)).toEqual(nothing)
    const error = await rejectedBy(store.backups.list('5d2c0f11-1c1b-4c7e-8a44-3b5a1f6e7d22'))
    expect(error.code).toBe('cell_not_found')
  })

  test('leaves alone what other people put into the folder', async () => {
    const store = await place.create()
    const cell = createLedger(store)
    const { version } = await store.backups.snapshot(cell.id)
    for (const name of ['README', 'backup-yesterday', 'backup-20261121T020213.123Z.part']) {
      await place.folder().put(`snapshots/${cell.id}/${name}`, bufferBody(Buffer.from('hello')))
    }
    const { backups } = await store.backups.list(cell.id)
    expect(backups.map((each) => each.version)).toEqual([version])
  })

  test('reads each manifest once', async () => {
    const recording = new RecordingStore(place.folder())
    const store = await place.create({ objectStore: recording })
    const cell = createLedger(store)
    for (let i = 0; i < 3; i++) await store.backups.incremental(cell.id)
    recording.forget()
    await store.backups.list(cell.id)
    expect(recording.calls.map(({ call }) => call)).toEqual(['list'])
    await store.close()
    const again = await place.open({ objectStore: recording })
    recording.forget()
    await again.backups.list(cell.id)
    await again.backups.list(cell.id)
    expect(recording.count('get')).toBe(3)
  })
})

describe('A manifest', () => {
  test('that is larger than what is read first is read to its end', async () => {
    const store = await place.create()
    const cell = createLedger(store)
    const version = versionOf(cell.id, 0)
    // Three times the logs that a chain may have, with salts that do not compress.
    const wals = Array.from({ length: 3_000 }, (_, i) => ({
      name: `wal-${String(i + 1).padStart(6, '0')}`,
      size: 4_152,
      frames: 1,
      page_size: 4_096,
      salts: Buffer.from(crypto.getRandomValues(new Uint8Array(8))).toString('hex'),
    }))
    const manifest = manifestOf({ store_id: store.id, cell_id: cell.id, version, wals })
    const archive = await archiveOf([], manifest)
    await place.folder().put(version, bufferBody(archive))
    const recording = new RecordingStore(place.folder())
    const index = new VersionIndex(recording, store.id)
    expect((await index.manifest(version, cell.id, new Map([[version, archive.length]]))).version).toBe(
      version,
    )
    expect(recording.count('get')).toBe(2)
  })
})
