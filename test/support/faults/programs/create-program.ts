/** Makes cells, each under a key of its own that a client would repeat, says of each whether it was made, and is killed. */
import fs from 'node:fs'
import { CellStore } from '../../../../src/store/cell-store.ts'
import { creationOf } from '../creation.ts'
import { toldToGo } from './told-to-go.ts'

const [, , directory = '', accountId = '', count = '', how = ''] = process.argv
const store = await CellStore.open(directory)
await toldToGo()
for (let i = 0; i < Number(count); i++) {
  try {
    const creation = creationOf(accountId, i)
    const { id } = how === 'addCell' ? await store.addCell(creation) : store.createCell(creation)
    fs.writeSync(1, `made ${id}\n`)
  } catch (error) {
    fs.writeSync(1, `failed ${(error as { code?: string }).code ?? (error as Error).message}\n`)
  }
}
// Without a close, which would clear away what the failed commit has left in the log.
process.kill(process.pid, 'SIGKILL')
