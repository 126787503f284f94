/**
 * Writes to several cells in each turn of the event loop, so that nearly all commits are in the commit log and nothing else
 * makes them durable; and says what was acknowledged.
 */
import fs from 'node:fs'
import { FileObjectStore } from '../../../../src/backup/object-store/file/file-object-store.ts'
import { CommitSync } from '../../../../src/engine/wal/commit-sync.ts'
import { CellStore } from '../../../../src/store/cell-store.ts'
import { Random } from '../../random.ts'
import { say } from '../acknowledgements.ts'
import { prepareLedger, steadyNumber, writeEntry } from '../ledger.ts'
import { toldToGo } from './told-to-go.ts'

const [, , root = '', seed = '', steps = '', , fault = 'none'] = process.argv
const random = new Random(Number(seed))
const CELLS = 5

const cells = new Map<string, string>()
let made = 0
let next = 0

function open(): Promise<CellStore> {
  return CellStore.openOrCreate(`${root}/data`, {
    objectStore: new FileObjectStore({ root: `${root}/objects` }),
    // A log lasts for a few groups, and a WAL for many.
    commitLogBytes: 262_144,
    checkpointBytes: 524_288,
    random: () => 0.5,
  })
}

function create(): void {
  const cell = `cell ${made++}`
  say({ began: 'create', cell })
  const { id } = store.createCell({ name: cell })
  cells.set(cell, id)
  say({ done: cell, id })
  say({ began: 'schema', cell })
  prepareLedger(store.openCell(id))
  say({ done: cell })
}

function remove(cell: string): void {
  say({ began: 'delete', cell })
  store.deleteCell(cells.get(cell) ?? '')
  say({ done: cell })
  cells.delete(cell)
}

async function writeGroup(names: readonly string[]): Promise<void> {
  const writes = names.map(async (cell) => {
    const handle = store.openCell(cells.get(cell) ?? '')
    const n = steadyNumber(next++)
    say({ began: 'write', cell, n })
    await handle.commit(() => writeEntry(handle, n))
    say({ done: cell })
  })
  await Promise.all(writes)
}

function write(cell: string): void {
  const handle = store.openCell(cells.get(cell) ?? '')
  const n = steadyNumber(next++)
  say({ began: 'write', cell, n })
  handle.transaction(() => writeEntry(handle, n))
  say({ done: cell })
}

async function step(): Promise<void> {
  if (cells.size < CELLS) return create()
  const cell = random.pick([...cells.keys()])
  const dice = random.below(100)
  if (dice < 90)
    return await writeGroup([...cells.keys()].filter((name) => name === cell || random.chance(0.4)))
  if (dice < 95) return write(cell)
  if (dice < 97) return remove(cell)
  await store.close()
  say({ closed: true })
  store = await open()
}

/** What a commit log that forgets something would do. */
function bringIn(name: string): void {
  if (name === 'no fdatasync') fs.fdatasyncSync = () => {}
  if (name === 'early rotation') CommitSync.prototype.syncWal = async () => {}
}

bringIn(fault)
await toldToGo()
let store = await open()
for (let i = 0; i < Number(steps); i++) await step()
await store.close()
say({ closed: true })
