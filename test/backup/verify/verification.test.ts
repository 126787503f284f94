import fs from 'node:fs'
import path from 'node:path'
import { buffer } from 'node:stream/consumers'
import { describe, expect, test } from 'vitest'
import { bufferBody } from '../../../src/backup/object-store/object-store.ts'
import { S3ObjectStore } from '../../../src/backup/object-store/s3/s3-object-store.ts'
import type { CellStore } from '../../../src/store/cell-store.ts'
import { GatedStore } from '../../support/backup/object-store-decorators.ts'
import { addRow, createLedger, notes, ScratchPlace } from '../../support/backup/scratch-store.ts'
import { startS3rver } from '../../support/s3/s3rver.ts'
import { filesBelow } from '../../support/temp-directory.ts'
import { rejectedBy } from '../../support/thrown.ts'

const DAY_MS = 86_400_000

const place = ScratchPlace.perTest()

/** A cell with a base and two incrementals. */
async function createChain(store: CellStore) {
  const cell = createLedger(store)
  const versions: string[] = []
  for (const note of ['one', 'two', 'three']) {
    addRow(cell, note, 50_000)
    versions.push((await store.backups.incremental(cell.id)).version)
  }
  return { cell, versions: versions as [string, string, string] }
}

function fileOf(version: string): string {
  return path.join(place.objects, version)
}

function damage(version: string, change: (bytes: Buffer) => Buffer): void {
  const file = fileOf(version)
  fs.chmodSync(file, 0o600)
  fs.writeFileSync(file, change(fs.readFileSync(file)))
}

function flipped(bytes: Buffer): Buffer {
  const copy = Buffer.from(bytes)
  const at = Math.floor(copy.length / 2)
  copy[at] = (copy[at] as number) ^ 1
  return copy
}

/** What a verification may leave nothing of. */
function scratch(): string[] {
  return fs.existsSync(place.paths.spool) ? filesBelow(place.paths.spool) : []
}

describe('A verification', () => {
  test('proves the newest version: its chain, its bytes, and its rows', async () => {
    const store = await place.create()
    const { cell, versions } = await createChain(store)
    const sizes = versions.map((version) => fs.statSync(fileOf(version)).size)
    const steps: number[] = []
    const result = await store.backups.verify(cell.id, { onProgress: ({ bytes }) => steps.push(bytes) })
    const storedBytes = sizes.reduce((sum, size) => sum + size, 0)
    expect(result).toEqual({
      version: versions[2],
      kind: 'incremental',
      objects: versions,
      storedBytes,
      sizeBytes: expect.any(Number),
      tableCount: 3,
      rowCount: 4,
      tables: [
        { name: '_cell_kv', rows: 0 },
        { name: '_cell_meta', rows: 1 },
        { name: 'ledger', rows: 3 },
      ],
      deep: false,
      provenAt: place.clock.now(),
      durationMs: expect.any(Number),
    })
    expect(steps.at(-1)).toBe(storedBytes)
    expect(store.retention?.lastProven(cell.id)).toEqual({
      version: versions[2],
      provenAt: place.clock.now(),
    })
    expect(notes(cell)).toEqual(['one', 'two', 'three'])
    expect(scratch()).toEqual([])
    expect(filesBelow(place.paths.cell(cell.id).directory).filter((file) => /incoming/.test(file))).toEqual(
      [],
    )
  })

  test('proves an older version, and the proof of the newer one stays', async () => {
    const store = await place.create()
    const { cell, versions } = await createChain(store)
    await store.backups.verify(cell.id)
    const older = await store.backups.verify(cell.id, { version: versions[0], deep: true })
    expect(older).toMatchObject({ version: versions[0], deep: true, rowCount: 2 })
    expect(store.retention?.lastProven(cell.id)?.version).toBe(versions[2])
  })

  test('proves without a name the version that a total loss would bring back: after a restore in place the restored one, until there is a newer', async () => {
    const store = await place.create()
    const { cell, versions } = await createChain(store)
    await store.backups.restore(cell.id, { version: versions[0] })
    expect(await store.backups.verify(cell.id)).toMatchObject({ version: versions[0], rowCount: 2 })
    addRow(cell, 'four')
    const { version } = await store.backups.incremental(cell.id)
    expect(await store.backups.verify(cell.id)).toMatchObject({ version, rowCount: 3 })
  })

  test('proves the catalog, under the id of the store', async () => {
    const store = await place.create()
    await createChain(store)
    await store.core.catalogStored()
    const { tables } = await store.backups.verify(store.id)
    expect(tables).toContainEqual({ name: 'cells', rows: 1 })
  })

  test('is refused for what does not exist', async () => {
    const store = await place.create()
    const cell = createLedger(store)
    expect(await rejectedBy(store.backups.verify(cell.id))).toMatchObject({ code: 'backup_not_found' })
    expect(await rejectedBy(store.backups.verify('x'))).toMatchObject({ code: 'cell_not_found' })
    expect(await rejectedBy(store.backups.verify(cell.id, { version: 'x' }))).toMatchObject({
      code: 'invalid_version',
    })
    expect(store.verifications?.damagedCount()).toBe(0)
  })

  const places = ['base', 'incremental between', 'newest incremental'] as const
  const faults = {
    cut: (bytes: Buffer) => bytes.subarray(0, bytes.length - 100),
    flipped,
    emptied: () => Buffer.alloc(0),
  }
  describe.each(places.map((name, at) => ({ name, at })))('refuses the $name', ({ at }) => {
    test.each(Object.entries(faults))('%s, by its name', async (_, change) => {
      const store = await place.create()
      const { cell, versions } = await createChain(store)
      const bad = versions[at] as string
      damage(bad, change)
      const error = await rejectedBy(store.backups.verify(cell.id))
      expect(error).toMatchObject({ code: 'backup_corrupt', details: { version: bad } })
      expect(error.message).toContain(bad)
      expect(store.verifications?.damage(cell.id)).toMatchObject({ version: bad })
      expect(store.retention?.lastProven(cell.id)).toBeUndefined()
      expect(scratch()).toEqual([])
    })

    test('deleted, by its name', async () => {
      const store = await place.create()
      const { cell, versions } = await createChain(store)
      const bad = versions[at] as string
      fs.rmSync(fileOf(bad))
      const error = await rejectedBy(store.backups.verify(cell.id))
      expect(error).toMatchObject({ code: 'backup_corrupt', details: { version: bad } })
      expect(error.message).toContain(bad)
      expect(scratch()).toEqual([])
    })

    test('swapped with another of its chain, or with that of another cell, by its name', async () => {
      const store = await place.create()
      const { cell, versions } = await createChain(store)
      const other = await createChain(store)
      const bad = versions[at] as string
      for (const wrong of [versions[(at + 1) % 3] as string, other.versions[at] as string]) {
        const before = fs.readFileSync(fileOf(bad))
        const bytes = fs.readFileSync(fileOf(wrong))
        damage(bad, () => bytes)
        const error = await rejectedBy(store.backups.verify(cell.id))
        expect(error).toMatchObject({ code: 'backup_corrupt', details: { version: bad } })
        damage(bad, () => before)
        await store.backups.verify(cell.id)
        expect(store.verifications?.damage(cell.id)).toBeUndefined()
      }
    })
  })

  test('finds that every backup of a cell is gone', async () => {
    const store = await place.create()
    const { cell } = await createChain(store)
    fs.rmSync(path.join(place.objects, 'snapshots', cell.id), { recursive: true })
    expect(await rejectedBy(store.backups.verify(cell.id))).toMatchObject({ code: 'backup_corrupt' })
  })

  test('takes a version for damaged no longer once it is whole again', async () => {
    const store = await place.create()
    const { cell, versions } = await createChain(store)
    const whole = fs.readFileSync(fileOf(versions[0]))
    damage(versions[0], flipped)
    await rejectedBy(store.backups.verify(cell.id))
    expect((await store.backups.list(cell.id)).backups).toEqual([])
    damage(versions[0], () => whole)
    await store.backups.verify(cell.id)
    expect((await store.backups.list(cell.id)).backups).toHaveLength(3)
    expect(store.verifications?.damagedCount()).toBe(0)
  })

  test('has the owner see what cannot be restored, also where the list has no version any more', async () => {
    const store = await place.create()
    const { cell, versions } = await createChain(store)
    damage(versions[1], flipped)
    await rejectedBy(store.backups.verify(cell.id))
    const judged = await store.retention?.prune(cell.id, { dryRun: true })
    expect(judged?.versions.map(({ version, restorable }) => [version, restorable])).toEqual([
      [versions[2], false],
      [versions[1], false],
      [versions[0], true],
    ])
    const { backups } = await store.backups.list(cell.id)
    expect(backups.map(({ version }) => version)).toEqual([versions[0]])
  })

  test('of an old damaged version does not count against a cell whose newest version is proven', async () => {
    const store = await place.create()
    const { cell, versions } = await createChain(store)
    place.clock.advance(1_000)
    await store.backups.snapshot(cell.id)
    await store.backups.verify(cell.id)
    damage(versions[0], flipped)
    await rejectedBy(store.backups.verify(cell.id, { version: versions[1] }))
    expect(store.verifications?.damagedCount()).toBe(0)
  })

  test('ends with its signal, alone or in the queue, and leaves nothing on disk', async () => {
    const gated = new GatedStore(place.folder())
    const store = await place.create({ objectStore: gated })
    const { cell, versions } = await createChain(store)
    gated.gates = (call, key) => call === 'get' && key === versions[1]
    const running = new AbortController()
    const waiting = new AbortController()
    const first = store.backups.verify(cell.id, { signal: running.signal }).catch((error: unknown) => error)
    await gated.arrival()
    const second = store.backups.verify(cell.id, { signal: waiting.signal }).catch((error: unknown) => error)
    waiting.abort()
    expect(await second).toBe(waiting.signal.reason)
    running.abort()
    gated.open()
    expect(await first).toBe(running.signal.reason)
    expect(scratch()).toEqual([])
    expect((await store.backups.verify(cell.id)).version).toBe(versions[2])
  })

  test('is cancelled when the store closes', async () => {
    const gated = new GatedStore(place.folder())
    const store = await place.create({ objectStore: gated })
    const { cell, versions } = await createChain(store)
    gated.gates = (call, key) => call === 'get' && key === versions[1]
    const running = rejectedBy(store.backups.verify(cell.id))
    await gated.arrival()
    const closed = store.close({ deadlineMs: 1 })
    place.clock.advance(1)
    gated.open()
    expect(await running).toMatchObject({ code: 'store_closed' })
    await closed
    expect(scratch()).toEqual([])
  })

  test('makes retention keep what it has proven, and what it has found damaged counts for nothing', async () => {
    const store = await place.create({ backups: { keep: 'all:1d', prune: false } })
    const { cell, versions } = await createChain(store)
    place.clock.advance(1_000)
    const { version: newer } = await store.backups.snapshot(cell.id)
    place.clock.advance(1_000)
    const { version: newest } = await store.backups.snapshot(cell.id)
    await store.backups.verify(cell.id, { version: newer })
    place.clock.advance(2 * DAY_MS)
    const reasons = async () => {
      const { versions: judged } = (await store.retention?.prune(cell.id, { dryRun: true })) ?? {
        versions: [],
      }
      return Object.fromEntries(judged.map(({ version, action, reason }) => [version, reason ?? action]))
    }
    const gone = Object.fromEntries(versions.map((version) => [version, 'mark']))
    expect(await reasons()).toEqual({ ...gone, [newer]: 'proven', [newest]: 'current' })
    // The proven one is damaged later: now nothing is proven, and the good bases stay.
    damage(newer, flipped)
    await rejectedBy(store.backups.verify(cell.id, { version: newer }))
    expect(await reasons()).toMatchObject({ [newest]: 'current', [versions[0]]: 'spare' })
  })
})

test('A verification over S3 names each object of a chain that is deleted, cut or flipped', async () => {
  const s3 = await startS3rver()
  const { endpoint, bucket, credentials } = s3
  const objectStore = new S3ObjectStore({
    endpoint,
    bucket,
    credentials,
    region: 'us-east-1',
    pathStyle: true,
  })
  try {
    const store = await place.create({ objectStore })
    const { cell, versions } = await createChain(store)
    await store.backups.verify(cell.id)
    for (const version of versions) {
      const body = await objectStore.get(version)
      const bytes = await buffer(body?.body as AsyncIterable<Uint8Array>)
      for (const wrong of [undefined, bytes.subarray(0, -100), flipped(bytes)]) {
        await objectStore.delete(version)
        if (wrong !== undefined) await objectStore.put(version, bufferBody(wrong))
        expect(await rejectedBy(store.backups.verify(cell.id))).toMatchObject({
          code: 'backup_corrupt',
          details: { version },
        })
      }
      await objectStore.delete(version)
      await objectStore.put(version, bufferBody(bytes))
    }
    await store.backups.verify(cell.id)
    await store.close({ deadlineMs: 1 })
  } finally {
    await s3.stop()
  }
})
