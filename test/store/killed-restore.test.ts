import fs from 'node:fs'
import path from 'node:path'
import { expect, test } from 'vitest'
import type { CellStore } from '../../src/store/cell-store.ts'
import { addRow, createLedger, notes, ScratchPlace } from '../support/backup/scratch-store.ts'

const place = ScratchPlace.perTest()

/** The directory as a crash at this moment leaves it. */
function crashed(copy: string): ScratchPlace {
  const filter = (file: string) => !/(lock|workers)\.db|owner\.json/.test(file)
  const other = new ScratchPlace()
  other.directory.mayHaveLogs = true
  fs.cpSync(copy, other.data, { recursive: true, filter })
  fs.cpSync(place.objects, other.objects, { recursive: true })
  return other
}

/** A cell that is restored, and the place as it is left if the process ends once the restored database is built. */
async function killedInRestore() {
  const store = await place.create()
  const { id } = createLedger(store)
  const { version } = await store.backups.snapshot(id)
  addRow(store.openCell(id), 'replaced')
  let left: ScratchPlace | undefined
  const permit = {
    check: () => {},
    checkBuilt: () => {
      left = crashed(place.data)
    },
  }
  await store.backups.restore(id, { version, permit })
  return { store, id, left: left as ScratchPlace }
}

const built = (store: CellStore, id: string) => store.core.paths.cell(id).restoreTarget

test('what a restore had built when its process was killed goes at the next start, before anybody opens the cell', async () => {
  const { store, id, left } = await killedInRestore()
  const file = left.paths.cell(id).restoreTarget
  expect(fs.existsSync(file)).toBe(true)
  const next = await left.open({ takeOver: true })
  expect(fs.existsSync(built(next, id))).toBe(false)
  expect(notes(next.openCell(id))).toEqual(['replaced'])
  // The one that came to its end leaves no note of itself.
  expect(fs.existsSync(built(store, id))).toBe(false)
  expect(fs.readdirSync(path.join(place.data, 'spool'))).toEqual([])
})

test('a switch that was decided by then is completed when the cell is opened', async () => {
  const { id, left } = await killedInRestore()
  const { restoreIntent } = left.paths.cell(id)
  fs.writeFileSync(restoreIntent, 'switch to incoming.db\n')
  const next = await left.open({ takeOver: true })
  expect(fs.existsSync(built(next, id))).toBe(true)
  expect(notes(next.openCell(id))).toEqual([])
  expect(fs.existsSync(restoreIntent)).toBe(false)
})
