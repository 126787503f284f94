/**
 * Writes to several cells in each turn of the event loop, as `shared-program.ts`, on a disk that fails: a write that is refused
 * is looked for once the cell serves again. Its commit log lasts for a few groups.
 */
import { FileObjectStore } from '../../../../src/backup/object-store/file/file-object-store.ts'
import { isCellError } from '../../../../src/errors.ts'
import { CellStore } from '../../../../src/store/cell-store.ts'
import { Random } from '../../random.ts'
import { say } from '../acknowledgements.ts'
import { prepareLedger, readLedger, steadyNumber, writeEntry } from '../ledger.ts'
import { untilServed } from '../until-served.ts'
import { toldToGo } from './told-to-go.ts'

const [, , root = '', seed = '', steps = ''] = process.argv
const random = new Random(Number(seed))
const CELLS = 4

const cells = new Map<string, string>()
let next = 0

function create(cell: string): void {
  say({ began: 'create', cell })
  const { id } = store.createCell({ name: cell })
  cells.set(cell, id)
  say({ done: cell, id })
  say({ began: 'schema', cell })
  prepareLedger(store.openCell(id))
  say({ done: cell })
}

async function write(cell: string): Promise<void> {
  const handle = store.openCell(cells.get(cell) ?? '')
  const n = steadyNumber(next++)
  say({ began: 'write', cell, n })
  let isKept = true
  try {
    await handle.commit(() => writeEntry(handle, n))
  } catch (error) {
    if (!isCellError(error, 'cell_quarantined')) throw error
    await untilServed(handle)
    isKept = readLedger(handle)?.includes(n) === true
  }
  say(isKept ? { done: cell } : { refused: cell })
}

await toldToGo()
const store = await CellStore.openOrCreate(`${root}/data`, {
  objectStore: new FileObjectStore({ root: `${root}/objects` }),
  commitLogBytes: 65_536,
  checkpointBytes: 262_144,
  random: () => 0.5,
})
for (let i = 0; i < CELLS; i++) create(`cell ${i}`)
for (let i = 0; i < Number(steps); i++) {
  const chosen = [...cells.keys()].filter(() => random.chance(0.7))
  await Promise.all(chosen.map(write))
}
await store.close()
say({ closed: true })
