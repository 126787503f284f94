/** A second process: opens the store in its first argument, says so, and holds it until its input ends. */
import { CellStore } from '../../src/store/cell-store.ts'

const [, , directory = ''] = process.argv
const store = await CellStore.openOrCreate(directory)
process.stdout.write('holds\n')
process.stdin.resume()
await new Promise((resolve) => process.stdin.once('end', resolve))
await store.close()
