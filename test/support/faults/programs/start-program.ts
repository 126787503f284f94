/** Starts a store on what a crash has left, with a flag or without, looks into every cell, and closes it; says what came of the start. */
import { FileObjectStore } from '../../../../src/backup/object-store/file/file-object-store.ts'
import { CellStore } from '../../../../src/store/cell-store.ts'
import { toldToGo } from './told-to-go.ts'

const [, , root = '', flag = ''] = process.argv
await toldToGo()
const store = await CellStore.openOrCreate(`${root}/data`, {
  objectStore: new FileObjectStore({ root: `${root}/objects` }),
  adopt: flag === 'adopt',
  takeOver: flag === 'takeOver',
}).catch((error) => {
  process.stdout.write(`${error.code ?? error.message}\n`)
})
if (store) {
  for (const { id } of store.cells({ limit: 100 }).cells) {
    try {
      const cell = store.openCell(id)
      // In one transaction: whatever a fault makes of it, the key that the ledger does not have is never there.
      cell.transaction(() => {
        cell.kv.put('started', 'v')
        cell.kv.delete('started')
      })
    } catch {
      // What a fault has made of it shows afterwards.
    }
  }
  process.stdout.write('started\n')
  await store.close().catch(() => {})
}
