/**
 * A process that writes to a cell until it is killed, and says what was acknowledged, one number a line: everything up
 * to that number has been.
 */
import { CellStore } from '../../src/store/cell-store.ts'
import { writeOut } from './write-out.ts'

const [, , directory = '', id = '', from = '0'] = process.argv
// Small, so that checkpoints come often, and kills hit them.
const store = await CellStore.open(directory, { checkpointBytes: 65_536 })
const cell = store.openCell(id)

function acknowledge(n: number): void {
  writeOut(`${n}\n`)
}

/** Row and entry in one transaction: both or neither. */
function pair(n: number): void {
  cell.sql('INSERT INTO t VALUES (?, ?)', [n, 'x'.repeat(n % 3_000)])
  cell.kv.put(`k${n}`, String(n))
}

for (let n = Number(from); ; n += 10) {
  for (let i = 0; i < 5; i++) {
    cell.transaction(() => pair(n + i))
    acknowledge(n + i)
  }
  await Promise.all([5, 6, 7, 8, 9].map((i) => cell.commit(() => pair(n + i))))
  acknowledge(n + 9)
  if (n % 50 === 0) cell.sql('DELETE FROM t WHERE length(b) < 0')
}
