import './built.ts'
import os from 'node:os'
import { killed, lost, move, stopped } from './cluster/recovery.ts'
import { revocation } from './cluster/revocation.ts'
import { forwarded, owner } from './cluster/throughput.ts'
import { HEAD } from './side-by-side.ts'

/**
 * A cluster of three nodes, each a process of the built `cellstore serve --cluster`, with a PostgreSQL and a folder of its own for each
 * row: what a request to the owner costs and what the way through another node does, how long requests wait for a move and
 * for a fail-over, and how long a revocation takes.
 */
const ROWS: Readonly<Record<string, () => Promise<void>>> = {
  owner,
  forwarded,
  revocation,
  move,
  killed,
  stopped,
  lost,
}

const wanted = process.env['CELLSTORE_BENCH_ROW']?.split(',') ?? Object.keys(ROWS)
console.log(`load ${os.loadavg()[0]?.toFixed(1)}\n${HEAD}`)
for (const name of wanted) {
  const row = ROWS[name]
  if (row === undefined)
    throw new Error(`There is no row ${name}. The rows are ${Object.keys(ROWS).join(', ')}.`)
  await row()
}
