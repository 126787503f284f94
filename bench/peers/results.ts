import { execFileSync } from 'node:child_process'
import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'

/** One file for each run of `npm run bench -- --peers`. */
export interface Results {
  /** Of the beginning of the run, ISO 8601. */
  date: string
  /** What was measured: the commit, with `+` if sources or benchmarks differed from it. */
  commit: string
  machine: {
    processor: string
    processors: number
    memoryMb: number
    system: string
    node: string
    /** Files that a process may have open. */
    openFilesMax: number
  }
  settings: Settings
  rows: Row[]
}

export interface Settings {
  rounds: number
  /** Milliseconds of each turn. */
  turnMs: number
  /** Of the database that is backed up. */
  megabytes: number
  /** Databases of a fleet, fewest first. */
  fleets: number[]
  /** Entries of a growing cell, and cells of a growing store. */
  entries: number[]
  cells: number[]
}

export type Unit = '/s' | 's' | 'ms' | 'µs' | 'MB' | 'open files'

export interface Row {
  group: string
  what: string
  unit: Unit
  /** Where the same is measured at several sizes: how many, and of what. */
  at?: number
  of?: 'entries' | 'cells' | 'databases'
  contenders: Record<string, Outcome>
}

/** What all rounds gave, or why there is nothing. */
export type Outcome = Measured | { absent: string }

export interface Measured {
  /** Name and version of what ran, and how durable it is. */
  version: string
  /** Of the rounds. */
  median: number
  min: number
  max: number
  /** Milliseconds of one operation, the median of the rounds. */
  p50?: number
  p99?: number
  /** Microseconds of processor time per operation, of all of the contender's processes. */
  processorUs?: number
}

const FOLDER = path.join(import.meta.dirname, 'results')

export function machine(): Results['machine'] {
  return {
    processor: os.cpus()[0]?.model ?? 'unknown',
    processors: os.availableParallelism(),
    memoryMb: Math.round(os.totalmem() / 1e6),
    system: `${os.type()} ${os.release()}`,
    node: process.version,
    // Node.js raises its own limit to the hard one, and its children inherit that.
    openFilesMax: Number(execFileSync('bash', ['-c', 'ulimit -Hn'], { encoding: 'utf8' })),
  }
}

export function commit(): string {
  const git = (...args: string[]) => execFileSync('git', args, { encoding: 'utf8' }).trim()
  try {
    // A run makes docs/peers.md anew: this is no difference to what the next one measures.
    const differs = git(
      'status',
      '--porcelain',
      '--untracked-files=no',
      '--',
      ':/src',
      ':/bench',
      ':/package-lock.json',
    )
    return `${git('rev-parse', '--short=8', 'HEAD')}${differs && '+'}`
  } catch {
    return 'unknown'
  }
}

/** @returns where they are */
export function writeResults(results: Results, folder = FOLDER): string {
  fs.mkdirSync(folder, { recursive: true })
  const file = path.join(folder, `${results.date.replaceAll(':', '-').slice(0, 19)}.json`)
  fs.writeFileSync(file, `${JSON.stringify(results, undefined, 2)}\n`)
  return file
}

/** Of each group the newest, whichever run that was. */
export function newestOfEachGroup(folder = FOLDER): Map<string, Results> {
  const groups = new Map<string, Results>()
  const files = fs.existsSync(folder) ? fs.readdirSync(folder).sort() : []
  for (const file of files) {
    const results = JSON.parse(fs.readFileSync(path.join(folder, file), 'utf8')) as Results
    for (const name of new Set(results.rows.map(({ group }) => group)))
      groups.set(name, { ...results, rows: results.rows.filter(({ group }) => group === name) })
  }
  return groups
}
