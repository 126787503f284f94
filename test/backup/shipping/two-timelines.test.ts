import { execFileSync } from 'node:child_process'
import fs from 'node:fs'
import path from 'node:path'
import { describe, expect, test } from 'vitest'
import { takenOver } from '../../../src/backup/fence/epoch-guard.ts'
import { openSealed, sealJson } from '../../../src/backup/versions/identity/sealed-json.ts'
import type { CellStore } from '../../../src/store/cell-store.ts'
import type { Cell } from '../../../src/store/open/cell.ts'
import { FailingStore } from '../../support/backup/object-store-decorators.ts'
import { addRow, createLedger, notes, ScratchPlace } from '../../support/backup/scratch-store.ts'
import { filesBelow } from '../../support/temp-directory.ts'

const MINUTE_MS = 60_000
const options = { durability: 'remote', backups: { maxLagMs: 3_600_000, remoteWaitMs: 3_600_000 } } as const

const place = ScratchPlace.perTest()
let store: CellStore
let ids: string[]

const soon = <T>(work: Promise<T>): Promise<T> => place.advanceUntil(work, 150)
const cells = () => ids.map((id) => store.openCell(id))

async function commit(note: string, some: readonly Cell[] = cells()): Promise<void> {
  place.clock.advance(MINUTE_MS)
  for (const cell of some) {
    addRow(cell, note)
    await soon(cell.replicated())
  }
}

const copied = () => path.join(place.root, 'copy')

/** An image of the disk: unlike a copy of the files, it is put back with the same inodes and times. */
function takeImage(): void {
  execFileSync('cp', ['-a', place.data, copied()])
}

/** As if the process was killed: it says no more that it stopped. */
async function kill(): Promise<void> {
  store.core.guard?.lose(takenOver('killed (injected)'))
  await store.close().catch(() => {})
}

/** The machine was started again: the newest record of the prefix is of another boot, and soon nobody waits for it. */
function reboot(): void {
  const records = filesBelow(place.objects).filter((file) => /^(fence|holder)\//.test(file))
  const file = path.join(place.objects, records.sort(byEpoch).at(-1) as string)
  const record = openSealed(fs.readFileSync(file, 'utf8')) as object
  const { checksum: _, ...content } = {
    checksum: undefined,
    ...record,
    boot_id: 'the boot before',
    lease_ms: 100,
  }
  fs.chmodSync(file, 0o600)
  fs.writeFileSync(file, sealJson(content))
}

/** The fence of an epoch comes before its other records. */
function byEpoch(a: string, b: string): number {
  const [one, two] = [a, b].map((each) => each.replace(/^\w+\//, '')) as [string, string]
  return one < two ? -1 : 1
}

/** What the directory has become is lost. */
async function putImageBack(): Promise<void> {
  for (const file of filesBelow(place.data)) {
    if (!fs.existsSync(path.join(copied(), file))) fs.rmSync(path.join(place.data, file))
  }
  execFileSync('cp', ['-rp', `${copied()}/.`, place.data])
}

async function expectEverywhere(expected: readonly string[]): Promise<void> {
  const timestamp = place.clock.now()
  place.clock.advance(MINUTE_MS)
  for (const { id } of cells()) {
    const branch = await soon(store.createCell({ from: { cellId: id, timestamp } }))
    expect(notes(branch)).toEqual(expected)
  }
  await soon(store.close())
  place.loseData()
  store = await place.open(options)
  for (const cell of cells()) {
    await soon(cell.ensureLocal())
    expect(notes(cell)).toEqual(expected)
  }
}

describe('A directory that goes on where another timeline has written', () => {
  test('begins new histories: what it acknowledges in remote is restored, whatever the other timeline has stored', async () => {
    store = await place.create(options)
    ids = [0, 1, 2].map(() => createLedger(store).id)
    await commit('before')
    await soon(store.close())
    takeImage()
    store = await place.open(options)
    // One has a version that is further than all that the old disk ships at first; one, log objects alone.
    for (let i = 0; i < 3; i++) await commit(`lost ${i}`, cells().slice(0, 2))
    await soon(store.backups.incremental(ids[0] as string))
    await commit('lost last', cells().slice(0, 1))
    await soon(store.close())
    await putImageBack()
    store = await place.open({ ...options, takeOver: true })
    for (const cell of cells()) expect(notes(cell)).toEqual(['before'])
    await commit('after')
    await commit('after that')
    await expectEverywhere(['before', 'after', 'after that'])
  })

  const howItGoesOn = [
    ['after a reboot', {}],
    ['with --take-over', { takeOver: true }],
  ] as const
  describe.each(howItGoesOn)('%s, from an image of the last minute', (_how, how) => {
    test.each([0, 1, 2])(
      'begins new histories: what it acknowledges in remote is restored, although %i versions of the lost time are stored (invariant 14)',
      async (versions) => {
        store = await place.create(options)
        ids = [createLedger(store).id]
        await commit('before')
        await commit('before that')
        takeImage()
        await commit('lost')
        for (let i = 0; i < versions; i++) {
          await soon(store.backups.incremental(ids[0] as string))
          await commit(`lost since version ${i}`)
        }
        await kill()
        await putImageBack()
        place.directory.mayHaveLogs = true
        if (!('takeOver' in how)) reboot()
        store = await soon(place.open({ ...options, ...how }))
        const after = ['after', 'after that', 'at last']
        for (const note of after) await commit(note)
        await expectEverywhere(['before', 'before that', ...after])
      },
    )
  })

  test('begins new histories also where the object store answers after the cells were opened (invariant 14)', async () => {
    const failing = new FailingStore(place.folder())
    store = await place.create(options)
    ids = [createLedger(store).id]
    await commit('before')
    takeImage()
    for (const note of ['lost', 'lost too']) {
      await commit(note)
      await soon(store.backups.incremental(ids[0] as string))
    }
    await kill()
    await putImageBack()
    place.directory.mayHaveLogs = true
    reboot()
    failing.failFromHere(1)
    failing.forGood = true
    store = await place.open({ ...options, objectStore: failing })
    expect(notes(cells()[0] as Cell)).toEqual(['before'])
    failing.failAt = 0
    const after = ['after', 'after that', 'at last']
    for (const note of after) {
      place.clock.advance(MINUTE_MS)
      addRow(cells()[0] as Cell, note)
      await place.advanceUntil((cells()[0] as Cell).replicated(), 1_000)
    }
    await expectEverywhere(['before', ...after])
  })
})

describe('A start that follows on the last one', () => {
  const histories = () => {
    const { progress } = store.core.destination ?? {}
    return ids.map((id) => [progress?.find(id).history?.id, progress?.find(id).chain?.versions.length])
  }
  const versions = () =>
    filesBelow(place.objects).filter((file) => ids.some((id) => file.startsWith(`snapshots/${id}`)))

  test.each([
    ['a proper stop', () => soon(store.close())],
    [
      'a proper stop and a reboot',
      async () => {
        await soon(store.close())
        reboot()
      },
    ],
    ['a kill', kill],
  ])(
    'of the same directory after %s goes on in its histories and chains, and stores no version',
    async (_why, end) => {
      store = await place.create(options)
      ids = [0, 1].map(() => createLedger(store).id)
      await commit('before')
      await soon(store.backups.incremental(ids[0] as string))
      await commit('since')
      const [before, stored] = [histories(), versions()]
      expect(stored).toHaveLength(3)
      expect(before.flat()).not.toContain(undefined)
      await end()
      place.directory.mayHaveLogs = true
      store = await place.open(options)
      expect(histories()).toEqual(before)
      await commit('after')
      expect(histories()).toEqual(before)
      expect(versions()).toEqual(stored)
    },
  )

  test('of the same directory after a kill and a reboot keeps its chains: each changed cell costs one incremental', async () => {
    store = await place.create(options)
    ids = [0, 1].map(() => createLedger(store).id)
    await commit('before')
    const chains = histories().map(([, length]) => length as number)
    await kill()
    reboot()
    place.directory.mayHaveLogs = true
    store = await soon(place.open(options))
    expect(histories().map(([id]) => id)).toEqual([undefined, undefined])
    await commit('after')
    expect(histories().map(([, length]) => length)).toEqual(chains.map((length) => length + 1))
  })
})
