/**
 * Does everything that a store does, and says what was acknowledged: makes cells, writes to them by themselves and in
 * groups, closes and opens them as the pool has it, backs up, restores, deletes, and closes the store in between.
 */
import { FileObjectStore } from '../../../../src/backup/object-store/file/file-object-store.ts'
import type { Durability } from '../../../../src/engine/cell-settings.ts'
import { CellStore } from '../../../../src/store/cell-store.ts'
import type { Cell } from '../../../../src/store/open/cell.ts'
import { Random } from '../../random.ts'
import { say } from '../acknowledgements.ts'
import { prepareLedger, writeEntry } from '../ledger.ts'
import { toldToGo } from './told-to-go.ts'

const [, , root = '', seed = '', steps = '', durability = 'full'] = process.argv
const random = new Random(Number(seed))
const CELLS_MAX = 5

/** The cells by name; a deleted one keeps its id, and its backups. */
const cells = new Map<string, { id: string; deleted: boolean; versions: string[] }>()
let made = 0
let next = 0

async function open(): Promise<CellStore> {
  return await CellStore.openOrCreate(`${root}/data`, {
    objectStore: new FileObjectStore({ root: `${root}/objects` }),
    durability: durability as Durability,
    // Small, so that checkpoints, the pool and the commit log have much to do.
    checkpointBytes: 65_536,
    commitLogBytes: 524_288,
    openCellsMax: 4,
    random: () => 0.5,
  })
}

/** Another program that opens and closes the files can be in the way for a moment. */
async function untilFree<T>(work: () => T | Promise<T>): Promise<T> {
  for (;;) {
    try {
      return await work()
    } catch (error) {
      if ((error as { code?: string }).code !== 'busy') throw error
      await new Promise((resolve) => setTimeout(resolve, 1))
    }
  }
}

/** The cell, open: that takes longest where others are in the way. */
async function opened(cell: string): Promise<Cell> {
  const handle = store.openCell(idOf(cell))
  await untilFree(() => handle.kv.get('k'))
  return handle
}

async function create(): Promise<void> {
  const cell = `cell ${made++}`
  say({ began: 'create', cell })
  const { id } = store.createCell({ name: cell })
  cells.set(cell, { id, deleted: false, versions: [] })
  say({ done: cell, id })
  say({ began: 'schema', cell })
  const handle = await opened(cell)
  await untilFree(() => prepareLedger(handle))
  say({ done: cell })
}

async function write(cell: string): Promise<void> {
  const handle = await opened(cell)
  const n = next++
  say({ began: 'write', cell, n })
  await untilFree(() => handle.transaction(() => writeEntry(handle, n)))
  say({ done: cell })
}

/** Those that come in one turn of the event loop, on one cell or several. */
async function writeGroup(names: readonly string[]): Promise<void> {
  const work = names.flatMap((cell) =>
    Array.from({ length: 1 + random.below(3) }, () => ({ cell, n: next++ })),
  )
  for (const cell of names) await opened(cell)
  await Promise.all(
    work.map(async ({ cell, n }) => {
      const handle = store.openCell(idOf(cell))
      say({ began: 'write', cell, n })
      await untilFree(() => handle.commit(() => writeEntry(handle, n)))
      say({ done: cell })
    }),
  )
}

async function backUp(cell: string): Promise<void> {
  const found = cells.get(cell) as { id: string; versions: string[] }
  const isSnapshot = random.chance(0.4)
  const { version } = await untilFree(() =>
    isSnapshot ? store.backups.snapshot(found.id) : store.backups.incremental(found.id),
  )
  say({ backedUp: cell, version })
  found.versions.push(version)
}

async function restore(cell: string): Promise<void> {
  const found = cells.get(cell) as { id: string; deleted: boolean; versions: string[] }
  if (found.versions.length === 0) return
  const version = random.pick(found.versions)
  say({ began: 'restore', cell, version })
  await untilFree(() => store.backups.restore(found.id, { version }))
  say({ done: cell })
  found.deleted = false
}

function remove(cell: string): void {
  say({ began: 'delete', cell })
  store.deleteCell(idOf(cell))
  say({ done: cell })
  Object.assign(cells.get(cell) as object, { deleted: true })
}

async function step(): Promise<void> {
  const live = [...cells].filter(([, { deleted }]) => !deleted).map(([name]) => name)
  const dead = [...cells].filter(([, { deleted }]) => deleted).map(([name]) => name)
  if (live.length < 3 || (live.length < CELLS_MAX && random.chance(0.03))) return await create()
  const [cell, other] = [random.pick(live), random.pick(live)]
  const dice = random.below(100)
  if (dice < 30) return await write(cell)
  if (dice < 70) return await writeGroup(live.filter((name) => name === cell || random.chance(0.5)))
  if (dice < 85) {
    // A backup of one, and writes to another beside it.
    const backup = backUp(cell)
    if (other !== cell) for (let i = random.below(5); i > 0; i--) await writeGroup([other])
    return await backup
  }
  if (dice < 90) return await restore(cell)
  if (dice < 92 && dead.length > 0) return await restore(random.pick(dead))
  if (dice < 93 && live.length > 2) return remove(cell)
  if (dice < 94) return say({ account: store.accounts.create().id })
  if (dice < 97) {
    await store.close()
    say({ closed: true })
    store = await untilFree(open)
  }
}

function idOf(cell: string): string {
  return cells.get(cell)?.id ?? ''
}

await toldToGo()
let store = await untilFree(open)
for (let i = 0; i < Number(steps); i++) await step()
await store.close()
say({ closed: true })
