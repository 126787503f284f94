import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { writeNewFile } from '../src/base/files/durable-files.ts'
import { DEFAULT_LIMITS } from '../src/base/options/limits.ts'
import { CellDatabase } from '../src/engine/cell-database.ts'
import { ReservedSchema } from '../src/engine/reserved-schema.ts'
import { HEAD, median, report } from './side-by-side.ts'

/**
 * One durable write in each of 32 cells: an fsync inside each COMMIT, one after the other, next to commits whose logs
 * are fsynced side by side afterwards. Both are on disk at the end.
 */
const CELLS = 32
const ROUNDS = 41

const directory = fs.mkdtempSync(path.join(os.tmpdir(), 'cellstore-bench-wal-sync-'))
const cells = Array.from({ length: CELLS }, (_, i) => {
  const file = path.join(directory, `${i}.db`)
  writeNewFile(file, new ReservedSchema('CREATE TABLE t (a INTEGER PRIMARY KEY, b);').image())
  return new CellDatabase(file, {
    durability: 'full',
    sqlPolicy: 'trusted',
    limits: DEFAULT_LIMITS,
    pageCacheBytes: 1_048_576,
    checkpointBytes: 4_194_304,
  })
})
let writes = 0
const write = (cell: CellDatabase) => cell.sql('INSERT OR REPLACE INTO t VALUES (1, ?)', [++writes])

async function inTurn(): Promise<void> {
  for (const cell of cells) write(cell)
}

async function sideBySide(): Promise<void> {
  for (const cell of cells) cell.syncs.defer(() => write(cell))
  await Promise.all(cells.map((cell) => cell.syncs.sync()))
}

const contenders = { inTurn, sideBySide }
const took: Record<keyof typeof contenders, number[]> = { inTurn: [], sideBySide: [] }
for (let round = 0; round <= ROUNDS; round++) {
  for (const [name, run] of Object.entries(contenders)) {
    const started = performance.now()
    await run()
    // The first round warms up.
    if (round > 0) took[name as keyof typeof contenders].push(performance.now() - started)
  }
}
const [ours, theirs] = [median(took.sideBySide), median(took.inTurn)]
console.log(HEAD)
report({
  what: `a durable write in each of ${CELLS} cells`,
  ours: `${ours.toFixed(1)} ms, fsynced side by side`,
  theirs: `${theirs.toFixed(1)} ms, one after the other`,
  ratio: theirs / ours,
  aim: '≥ 2 × one after the other',
  met: theirs / ours >= 2,
})
for (const cell of cells) cell.close()
fs.rmSync(directory, { recursive: true, force: true })
