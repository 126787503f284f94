/** Restores a cell to a version, once it is told to, and says what came of it. */
import { FileObjectStore } from '../../../../src/backup/object-store/file/file-object-store.ts'
import { CellStore } from '../../../../src/store/cell-store.ts'
import { toldToGo } from './told-to-go.ts'

const [, , root = '', cell = '', version = ''] = process.argv
const store = await CellStore.open(`${root}/data`, {
  objectStore: new FileObjectStore({ root: `${root}/objects` }),
})
// Open, as a cell in use is.
store.openCell(cell).kv.get('k')
await toldToGo()
const outcome = await store.backups.restore(cell, { version }).then(
  () => 'restored',
  (error) => String(error.code),
)
process.stdout.write(`${outcome}\n`)
await store.close().catch(() => {})
