/** Has a database proven as after a restore, and as after an error of the disk; says for each what came of it, or `whole`. */
import path from 'node:path'
import { proveDatabase } from '../../../../src/backup/restore/build/restore-database.ts'
import { CellPaths } from '../../../../src/base/files/store-paths.ts'
import { checkClosedCell } from '../../../../src/engine/files/quarantine-check.ts'
import { toldToGo } from './told-to-go.ts'

const [, , file = ''] = process.argv
const paths = new CellPaths(path.dirname(file), file)
const proofs = [
  () => proveDatabase(file, 'cell.db'),
  () => checkClosedCell({ paths, frames: undefined, isCurrent: () => true }),
]

await toldToGo()
for (const prove of proofs) {
  try {
    await prove()
    process.stdout.write('whole\n')
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException
    process.stdout.write(`${code ?? message}\n`)
  }
}
