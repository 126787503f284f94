/** A process that migrates a cell, and waits for its end in the middle of the second migration. */
import fs from 'node:fs'
import { CellStore } from '../../src/store/cell-store.ts'

const [, , directory = '', id = ''] = process.argv
const store = await CellStore.open(directory)
const cell = store.openCell(id)

cell.migrate([
  "CREATE TABLE users (name TEXT); INSERT INTO users VALUES ('Ann '), ('Bob')",
  () => {
    cell.sql("UPDATE users SET name = 'half'")
    fs.writeSync(1, 'in the middle\n')
    // Until it is killed: a migration is synchronous, and so is this wait.
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0)
  },
])
