import fs from 'node:fs'
import path from 'node:path'
import { FileObjectStore } from '../../../src/backup/object-store/file/file-object-store.ts'
import type { Durability } from '../../../src/engine/cell-settings.ts'
import type { CellStore } from '../../../src/store/cell-store.ts'
import type { Random } from '../random.ts'
import { StoreDirectory } from '../store-directory.ts'
import type { Acknowledgements, CellState } from './acknowledgements.ts'
import { prepareLedger, readLedger, writeEntry } from './ledger.ts'
import { untilServed } from './until-served.ts'

/** Far above every number that the program has written. */
const NEXT = 1_000_000

/**
 * Starts a store on what a power loss has left, and holds it against what was acknowledged.
 *
 * @param root with the folders `data` and `objects`
 * @throws if anything of it is lost, half there or damaged
 */
export async function checkAfterPowerLoss(
  root: string,
  acknowledged: Acknowledgements,
  durability: Durability,
  random: Random,
): Promise<void> {
  const data = new StoreDirectory(path.join(root, 'data'))
  data.mayHaveLogs = true
  // A store closes its object store.
  const open = () =>
    data.openOrCreate({
      objectStore: new FileObjectStore({ root: path.join(root, 'objects') }),
      // The folder is a copy: nobody can tell whether the node that wrote it still lives.
      takeOver: true,
      moveObjectStore: true,
      durability,
    })
  await data.use(open(), async (store) => {
    checkAccounts(store, acknowledged)
    await checkCells(store, acknowledged)
    for (const { version, cell } of acknowledged.backups) {
      if (!fs.existsSync(path.join(root, 'objects', version))) throw new Error(`${cell}: ${version} is gone`)
    }
    await goOn(store, random)
    await checkOneBackup(store, acknowledged, random)
  })
  if (!random.chance(0.1)) return
  fs.rmSync(data.path, { recursive: true })
  await data.use(open(), (store) => checkRecovered(store, acknowledged))
}

function checkAccounts(store: CellStore, { accounts }: Acknowledgements): void {
  for (const id of accounts)
    if (store.accounts.find(id) === undefined) throw new Error(`Account ${id} is gone`)
}

async function checkCells(store: CellStore, acknowledged: Acknowledgements): Promise<void> {
  const known = new Set<string>()
  for (const cell of acknowledged.cells.keys()) {
    const allowed = acknowledged.allowed(cell)
    const id = allowed.find((state) => state?.id)?.id
    if (id !== undefined) known.add(id)
    const found = await stateOf(store, id)
    if (!allowed.some((state) => isSame(state, found))) {
      throw new Error(`${cell} ${id} is ${show(found)}, and may be ${allowed.map(show).join(' or ')}`)
    }
  }
  // A cell that was being made, or is gone: it may be there without having been acknowledged, but whole.
  for (const { id } of store.cells({ limit: 100 }).cells)
    if (!known.has(id)) readLedger(await untilServed(store.openCell(id)))
}

async function stateOf(store: CellStore, id: string | undefined): Promise<CellState> {
  const record = id === undefined ? undefined : store.findCell(id)
  if (id === undefined || record === undefined || record.deletedAt !== null) return undefined
  return { id, entries: readLedger(await untilServed(store.openCell(id))) }
}

/** An id is not known before the cell is made. */
function isSame(a: CellState, b: CellState): boolean {
  if (a === undefined || b === undefined) return (a === undefined || a.id === '') && b === undefined
  return JSON.stringify(a.entries) === JSON.stringify(b.entries)
}

function show(state: CellState): string {
  return state === undefined ? 'absent' : `[${state.entries ?? 'no ledger'}]`
}

/** What is left can be written to, and backed up: a backup after a power loss must not rest on what was lost. */
async function goOn(store: CellStore, random: Random): Promise<void> {
  const { cells } = store.cells({ limit: 100 })
  for (const { id } of cells) {
    const cell = store.openCell(id)
    if (readLedger(cell) === undefined) prepareLedger(cell)
    cell.transaction(() => writeEntry(cell, NEXT))
  }
  if (cells.length === 0 || !random.chance(0.3)) return
  const { id } = random.pick(cells)
  const before = readLedger(store.openCell(id))
  const { version } = await store.backups.incremental(id)
  store.openCell(id).kv.put('not in the backup', '')
  await store.backups.restore(id, { version })
  const after = readLedger(store.openCell(id))
  if (JSON.stringify(after) !== JSON.stringify(before)) throw new Error(`${id}: ${version} is another state`)
}

async function checkOneBackup(
  store: CellStore,
  { backups }: Acknowledgements,
  random: Random,
): Promise<void> {
  if (backups.length === 0 || !random.chance(0.5)) return
  const { cell, version, entries } = random.pick(backups)
  const id = version.split('/')[1] as string
  await store.backups.restore(id, { version })
  const restored = readLedger(store.openCell(id))
  if (JSON.stringify(restored) === JSON.stringify(entries)) return
  throw new Error(`${cell}: ${version} holds [${restored}], and was [${entries}]`)
}

/** From the object store alone: every cell that was backed up comes back, as it was then or later. */
async function checkRecovered(store: CellStore, acknowledged: Acknowledgements): Promise<void> {
  for (const [cell, { backup }] of acknowledged.cells) {
    const allowed = acknowledged.allowed(cell)
    if (backup === undefined || allowed.includes(undefined)) continue
    const id = backup.version.split('/')[1] as string
    await store.openCell(id).ensureLocal()
    if (readLedger(store.openCell(id)) === undefined && backup.entries !== undefined) {
      throw new Error(`${cell} ${id} came back without its ledger`)
    }
  }
}
