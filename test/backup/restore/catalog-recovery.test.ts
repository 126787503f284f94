import fs from 'node:fs'
import path from 'node:path'
import Database from 'better-sqlite3'
import { describe, expect, test } from 'vitest'
import type {
  GetOptions,
  ListOptions,
  ObjectContent,
  ObjectEntry,
  ObjectStore,
} from '../../../src/backup/object-store/object-store.ts'
import { archiveOf, readManifest } from '../../support/backup/archives.ts'
import {
  CorruptingStore,
  FailingStore,
  ofFence,
  PassingStore,
  readObject,
} from '../../support/backup/object-store-decorators.ts'
import { createLedger, ScratchPlace } from '../../support/backup/scratch-store.ts'
import { KeptLog } from '../../support/kept-log.ts'
import { filesBelow } from '../../support/temp-directory.ts'
import { codeOf, rejectedBy } from '../../support/thrown.ts'

const place = ScratchPlace.perTest()

/** Answers the first reads of one object with other bytes. */
class FewTimesWrongStore extends CorruptingStore {
  readonly #key: string
  #left: number

  constructor(inner: ObjectStore, key: string, bytes: Buffer, times: number) {
    super(inner)
    this.replaced.set(key, bytes)
    this.#key = key
    this.#left = times
  }

  override get(key: string, options?: GetOptions): Promise<ObjectContent | undefined> {
    if (key === this.#key && this.#left-- === 0) this.replaced.clear()
    return super.get(key, options)
  }
}

/** Its first listings still have the newest version of the catalog, which is gone, and lack the next one. */
class OutdatedListing extends PassingStore {
  readonly #newest: string
  readonly #gone: string
  outdated: number

  constructor(inner: ObjectStore, newest: string, outdated: number) {
    super(inner)
    this.#newest = newest
    this.#gone = newest.replace(/\.\d{3}Z/, '.000Z')
    this.outdated = outdated
  }

  override async *list(prefix: string, options?: ListOptions): AsyncGenerator<ObjectEntry> {
    const isOutdated = this.#newest.startsWith(prefix) && this.outdated-- > 0
    for await (const entry of super.list(prefix, options))
      yield isOutdated && entry.key === this.#newest ? { ...entry, key: this.#gone } : entry
  }
}

function catalogVersions(storeId: string): string[] {
  return filesBelow(place.objects).filter((file) => file.includes(storeId))
}

describe('A damaged catalog', () => {
  test('in the newest backup: an older one comes back, and the log says which, why, and what is lost', async () => {
    const store = await place.create()
    await store.core.catalogStored()
    const account = store.accounts.create()
    const key = store.apiKeys.create(account.id, {})
    await store.core.catalogStored()
    const lostSince = new Date(place.clock.now()).toISOString()
    place.clock.step(60_000)
    store.apiKeys.revoke(account.id, key.id)
    await store.core.catalogStored()
    await store.close()
    const newest = catalogVersions(store.id).at(-1) as string
    const bytes = await readObject(place.folder(), newest)
    const corrupting = new CorruptingStore(place.folder())
    const flipped = Buffer.from(bytes)
    flipped[bytes.length >> 1] = (bytes[bytes.length >> 1] as number) ^ 1
    for (const damaged of [flipped, bytes.subarray(0, 100), Buffer.concat([bytes, bytes]), Buffer.alloc(0)]) {
      place.loseData()
      corrupting.replaced.set(newest, damaged)
      const log = new KeptLog()
      const failing = new FailingStore(corrupting)
      failing.failFromHere(1, (call, key) => call === 'put' && !ofFence(key))
      failing.forGood = true
      const again = await place.open({ objectStore: failing, log })
      expect(again.apiKeys.verify(key.key)).toMatchObject({ accountId: account.id })
      expect(log.errors.slice(0, 2)).toMatchObject([
        { version: newest, err: { code: 'backup_corrupt' } },
        { version: expect.stringContaining(store.id), lostSince },
      ])
      await again.close()
    }
    place.loseData()
    // Whole, the newest is taken.
    const last = await place.open()
    expect(codeOf(() => last.apiKeys.verify(key.key))).toBe('unauthorized')
  })

  test('that only comes damaged, four times one after the other, is not passed over for an older one', async () => {
    const store = await place.create()
    await store.core.catalogStored()
    const account = store.accounts.create()
    const key = store.apiKeys.create(account.id, {})
    await store.core.catalogStored()
    place.clock.step(60_000)
    store.apiKeys.revoke(account.id, key.id)
    await store.core.catalogStored()
    await store.close()
    const newest = catalogVersions(store.id).at(-1) as string
    const bytes = await readObject(place.folder(), newest)
    for (const at of [20, bytes.length >> 1, bytes.length - 5]) {
      place.loseData()
      const flipped = Buffer.from(bytes)
      flipped[at] = (bytes[at] as number) ^ 1
      const objectStore = new FewTimesWrongStore(place.folder(), newest, flipped, 4)
      const log = new KeptLog()
      const again = await place.open({ objectStore, log })
      expect(codeOf(() => again.apiKeys.verify(key.key))).toBe('unauthorized')
      expect(log.errors).toEqual([])
      await again.close()
    }
  })

  test('in a listing that is out of date is no reason for an older one: the listing is asked again (invariant 10)', async () => {
    const store = await place.create()
    await store.core.catalogStored()
    place.clock.step(60_123)
    const account = store.accounts.create()
    await store.core.catalogStored()
    await store.close()
    const newest = catalogVersions(store.id).at(-1) as string
    place.loseData()
    const objectStore = new OutdatedListing(place.folder(), newest, 1)
    const again = await place.advanceUntil(place.open({ objectStore }), 10_000)
    expect(objectStore.outdated).toBeLessThan(1)
    expect(again.accounts.list()).toMatchObject([{ id: account.id }])
  })

  test('on this machine is not stored: its good backups stay', async () => {
    const store = await place.create()
    for (let i = 0; i < 200; i++) store.accounts.create()
    await store.core.catalogStored()
    await store.close()
    const before = catalogVersions(store.id)
    place.directory.isDamaged = true
    damagePage(place.paths.catalog)
    const log = new KeptLog()
    const again = await place.open({ log })
    for (let i = 0; i < 3; i++) {
      again.apiKeys.create(again.accounts.list()[0]?.id as string, {})
      expect((await rejectedBy(again.core.catalogStored())).code).toBe('backup_corrupt')
    }
    expect(log.errors).toMatchObject([{ err: { code: 'backup_corrupt' } }, {}, {}])
    expect(catalogVersions(store.id)).toEqual(before)
    await again.close()
    for (const suffix of ['', '-wal', '-shm']) fs.rmSync(place.paths.catalog + suffix, { force: true })
    const last = await place.open()
    expect(last.accounts.list()).toHaveLength(200)
  })
})

/** Overwrites one page of a table that is not the schema's: a leaf of the largest one. */
function damagePage(file: string): void {
  const connection = new Database(file)
  const pageSize = connection.pragma('page_size', { simple: true }) as number
  const page = connection
    .prepare("SELECT rootpage FROM sqlite_schema WHERE name = 'idempotency'")
    .pluck()
    .get() as number
  connection.close()
  const fd = fs.openSync(file, 'r+')
  fs.writeSync(fd, Buffer.alloc(100, 0xff), 0, 100, (page - 1) * pageSize)
  fs.closeSync(fd)
}

describe('A start without a catalog is refused', () => {
  test('when all catalog backups are damaged, or the newest is of a newer format', async () => {
    const store = await place.create()
    for (let i = 0; i < 3; i++) {
      store.accounts.create()
      await store.core.catalogStored()
    }
    await store.close()
    place.loseData()
    const corrupting = new CorruptingStore(place.folder())
    const [first, ...others] = catalogVersions(store.id) as [string, ...string[]]
    for (const version of others) corrupting.replaced.set(version, Buffer.alloc(10))
    // The first catalog is whole, but an empty catalog would make cells and accounts seem never to have been.
    expect(catalogVersions(store.id)).toContain(first)
    expect((await rejectedBy(place.open({ objectStore: corrupting }))).code).toBe('backup_corrupt')
    expect((await rejectedBy(place.openOrCreate({ objectStore: corrupting }))).code).toBe('backup_corrupt')
    corrupting.replaced.clear()
    const newest = others.at(-1) as string
    const manifest = await readManifest(await readObject(place.folder(), newest), true)
    const newer = await archiveOf([], { ...manifest, format: 2 } as never)
    corrupting.replaced.set(newest, newer)
    const refused = await rejectedBy(place.open({ objectStore: corrupting }))
    expect(refused).toMatchObject({ code: 'backup_corrupt', message: expect.stringContaining('update') })
    expect(fs.existsSync(place.data)).toBe(false)
  })

  test('when there are backups of cells but none of the catalog', async () => {
    const store = await place.create()
    const cell = createLedger(store)
    await store.backups.snapshot(cell.id)
    await store.close()
    place.loseData()
    fs.rmSync(path.join(place.objects, 'snapshots', store.id), { recursive: true })
    expect((await rejectedBy(place.openOrCreate())).code).toBe('object_store_mismatch')
    expect(fs.existsSync(place.data)).toBe(false)
  })

  test.each(['missing', 'empty', 'no JSON', 'of a newer format', 'large'])(
    'when store.json is %s',
    async (how) => {
      const store = await place.create()
      const cell = createLedger(store)
      await store.backups.snapshot(cell.id)
      await store.close()
      const file = path.join(place.objects, 'store.json')
      const identity = JSON.parse(fs.readFileSync(file, 'utf8'))
      if (how === 'missing') fs.rmSync(file)
      if (how === 'empty') fs.writeFileSync(file, '')
      if (how === 'no JSON') fs.writeFileSync(file, 'store')
      if (how === 'of a newer format') fs.writeFileSync(file, JSON.stringify({ ...identity, format: 2 }))
      if (how === 'large')
        fs.writeFileSync(file, JSON.stringify({ ...identity, padding: 'x'.repeat(100_000) }))
      // Neither with a catalog nor without: backups would be made where nobody can find them.
      expect((await rejectedBy(place.open())).code).toBe('object_store_mismatch')
      place.loseData()
      expect((await rejectedBy(place.open())).code).toBe('object_store_mismatch')
      expect((await rejectedBy(place.openOrCreate())).code).toBe('object_store_mismatch')
      expect((await rejectedBy(place.create())).code).toBe('object_store_mismatch')
      expect(fs.existsSync(place.data)).toBe(false)
    },
  )

  test('when the object store does not answer: it tries until the deadline, then gives up and leaves nothing', async () => {
    const store = await place.create()
    await store.close()
    place.loseData()
    const failing = new FailingStore(place.folder())
    failing.failFromHere(1)
    failing.forGood = true
    for (const start of ['open', 'openOrCreate', 'create'] as const) {
      const before = failing.calls
      const begun = place.clock.monotonic()
      const starting = rejectedBy(place[start]({ objectStore: failing, objectStoreWaitMs: 30_000 }))
      const error = await place.advanceUntil(starting)
      expect(error.code).toBe('object_store_unavailable')
      const waited = place.clock.monotonic() - begun
      expect(waited).toBeGreaterThan(20_000)
      expect(waited).toBeLessThanOrEqual(35_000)
      expect(failing.calls - before).toBeGreaterThan(5)
      expect(fs.existsSync(place.data)).toBe(false)
    }
    // Back in time, it goes on as if nothing had been.
    failing.failFromHere(3)
    failing.forGood = false
    const again = await place.advanceUntil(place.open({ objectStore: failing }))
    expect(again.id).toBe(store.id)
  })
})
