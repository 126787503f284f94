import fs from 'node:fs'
import path from 'node:path'
import { beforeEach, describe, expect, test, vi } from 'vitest'
import type { StoreOptions } from '../../src/store/settings/store-options.ts'
import { addRow, createLedger, notes, ScratchPlace } from '../support/backup/scratch-store.ts'
import { rejectedBy } from '../support/thrown.ts'

/** A directory that was left by a kill, while another one has gone on from the object store. */
let left: ScratchPlace
const place = ScratchPlace.perTest()
let id: string
let account: string
beforeEach(async () => {
  const store = await place.create()
  const cell = createLedger(store)
  id = cell.id
  addRow(cell, 'old')
  await store.backups.snapshot(id)
  addRow(cell, 'own')
  account = store.accounts.create().id
  left = new ScratchPlace()
  left.directory.mayHaveLogs = true
  const filter = (file: string) => !/(lock|workers)\.db|owner\.json/.test(file)
  fs.cpSync(place.data, left.data, { recursive: true, filter })
  const other = new ScratchPlace()
  const theirs = await other.open({ objectStore: place.folder(), takeOver: true })
  await theirs.openCell(id).ensureLocal()
  addRow(theirs.openCell(id), 'theirs')
  await theirs.backups.snapshot(id)
  await theirs.close()
})
const open = (options: StoreOptions = {}) => left.open({ objectStore: place.folder(), ...options })
const asides = () => fs.readdirSync(left.data).filter((name) => name.startsWith('set-aside-'))

/** A disk that fails while the directory is set aside: at one file, and at all after it if that is asked for. */
async function failToAdopt(name: string, howOften: 'once' | 'for good'): Promise<void> {
  const rename = fs.renameSync
  let hasFailed = false
  vi.spyOn(fs, 'renameSync').mockImplementation((from, to) => {
    const isIt = `${to}`.includes('set-aside-') && path.basename(`${to}`) === name
    if (isIt || (hasFailed && howOften === 'for good')) {
      hasFailed = true
      throw Object.assign(new Error('EIO: i/o error, rename'), { code: 'EIO', errno: -5, syscall: 'rename' })
    }
    rename(from, to)
  })
  await expect(open({ adopt: true })).rejects.toThrow('EIO')
  vi.restoreAllMocks()
  expect(hasFailed).toBe(true)
}

describe.each(['once', 'for good'] as const)(
  'An adoption whose disk fails %s while it sets the directory aside',
  (howOften) => {
    const FILES = ['cells', 'local.db', 'catalog.db-wal', 'catalog.db']

    test.each(FILES)(
      'at %s, takes nothing from a start that goes on from this directory (invariants 1, 14)',
      async (name) => {
        await failToAdopt(name, howOften)
        const store = await open({ takeOver: true })
        expect(notes(store.openCell(id))).toEqual(['old', 'own'])
        expect(store.accounts.list().map((each) => each.id)).toEqual([account])
        expect(asides()).toEqual([])
      },
    )

    test.each(FILES)('at %s, sets all of it aside with the next try', async (name) => {
      await failToAdopt(name, howOften)
      const store = await open({ adopt: true })
      await store.openCell(id).ensureLocal()
      expect(notes(store.openCell(id))).toEqual(['old', 'theirs'])
      expect(store.accounts.list()).toEqual([])
      const folders = asides()
      expect(folders).toEqual([expect.stringMatching(/^set-aside-\w+\.\w+$/)])
      expect(fs.readdirSync(path.join(left.data, folders[0] as string))).toEqual(
        expect.arrayContaining(FILES),
      )
    })

    test.each(FILES)('at %s, is refused without a flag, as before', async (name) => {
      await failToAdopt(name, howOften)
      expect((await rejectedBy(open())).code).toBe('store_outdated')
    })
  },
)
