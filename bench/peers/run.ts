import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { compareBackups } from './backup/group.ts'
import { compareFleets } from './fleet/group.ts'
import { measureGrowth } from './growth/group.ts'
import { compareServers } from './http/group.ts'
import { compareLibraries } from './library/group.ts'
import { installPackages } from './packages.ts'
import { writePage } from './page.ts'
import { endChildren } from './processes.ts'
import { commit, machine, type Results, type Row, type Settings, writeResults } from './results.ts'
import { listing } from './table.ts'

/**
 * `npm run bench -- --peers [group …]`: cellstore beside what people would pick instead. Prints tables, and writes a file of
 * results, from which it makes docs/peers.md and its charts.
 */
const GROUPS: Record<string, (directory: string, settings: Settings) => Promise<Row[]>> = {
  library: compareLibraries,
  http: compareServers,
  backup: compareBackups,
  fleet: compareFleets,
  growth: measureGrowth,
}

const number = (name: string, otherwise: number) =>
  Number(process.env[`CELLSTORE_BENCH_${name}`] ?? otherwise)
const upTo = (sizes: readonly number[], most: number) => sizes.filter((size) => size <= most)
const settings: Settings = {
  rounds: number('ROUNDS', 5),
  turnMs: number('ROUND_MS', 2_000),
  megabytes: number('MB', 200),
  fleets: upTo([100, 1_000, 10_000], number('CELLS', 10_000)).slice(-2),
  entries: upTo([10_000, 100_000, 1_000_000, 10_000_000], number('ENTRIES_MAX', 10_000_000)),
  cells: upTo([100, 1_000, 10_000, 100_000], number('CELLS_MAX', 100_000)),
}

const chosen = process.argv.slice(2)
const unknown = chosen.find((name) => !(name in GROUPS))
if (unknown !== undefined) {
  console.error(`There is no group ${unknown}; there are ${Object.keys(GROUPS).join(', ')}.`)
  process.exit(2)
}

installPackages()
const directory = fs.mkdtempSync(path.join(os.tmpdir(), 'cellstore-bench-peers-'))
// However this ends, no server stays behind.
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => process.exit(1))
process.once('exit', () => {
  endChildren()
  fs.rmSync(directory, { recursive: true, force: true })
})

const results: Results = {
  date: new Date().toISOString(),
  commit: commit(),
  machine: machine(),
  settings,
  rows: [],
}
for (const [name, compare] of Object.entries(GROUPS)) {
  if (chosen.length > 0 && !chosen.includes(name)) continue
  const started = performance.now()
  const folder = path.join(directory, name)
  fs.mkdirSync(folder)
  const added = await compare(folder, settings)
  fs.rmSync(folder, { recursive: true, force: true })
  results.rows.push(...added)
  // After each group, so that a run that is ended keeps what it has.
  const file = writeResults(results)
  await writePage()
  const minutes = (performance.now() - started) / 60_000
  console.log(`\n${listing(added)}\n\n${name} took ${minutes.toFixed(1)} minutes: ${file}`)
}
