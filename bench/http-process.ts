import { type ChildProcess, execFileSync, fork, spawn } from 'node:child_process'
import { type EventEmitter, once } from 'node:events'
import fs from 'node:fs'
import path from 'node:path'
import type { Readable } from 'node:stream'
import type { Load, LoadFailure, LoadResult } from './http-load.ts'

const here = import.meta.dirname
const ENTRY = path.join(here, '..', 'dist', 'cellstore.js')

/** Without settings of the user's own, which would make this another benchmark. */
export const environment = Object.fromEntries(
  Object.entries(process.env).filter(([name]) => !name.startsWith('CELLSTORE_')),
)

/** A server in a process of its own. */
export interface Served {
  port: number
  /** The key that it made; none if it knows none. */
  key: string
  pid: number
  /** @returns its exit code */
  stop(): Promise<number | null>
}

/** @param logFile takes what it says of errors */
export function startBaseline(
  directory: string,
  { program = 'http-baseline.ts', args = [], logFile }: BaselineSettings = {},
): Promise<Served> {
  fs.mkdirSync(directory, { recursive: true })
  return start([path.join(here, program), directory, ...args], logFile)
}

interface BaselineSettings {
  program?: string
  args?: readonly string[]
  logFile?: string
}

/**
 * The command that users run, with whatever flags.
 *
 * @param logFile takes what it logs
 */
export function startCellstore(
  directory: string,
  flags: readonly string[],
  logFile?: string,
): Promise<Served> {
  const args = ['--port', '0', '--data-dir', dataOf(directory), '--log-level', 'warn', '--json', ...flags]
  return start([ENTRY, 'serve', ...args], logFile)
}

/** The key of a new account, in the store that `startCellstore` serves there. @param flags of `keys create` */
export function newAccount(directory: string, ...flags: string[]): string {
  const args = ['keys', 'create', '--new-account', ...flags, '--data-dir', dataOf(directory), '--json']
  const created = execFileSync(process.execPath, [ENTRY, ...args], { encoding: 'utf8', env: environment })
  return (JSON.parse(created) as { key: string }).key
}

function dataOf(directory: string): string {
  return path.join(directory, 'data')
}

async function start(args: string[], logFile?: string): Promise<Served> {
  const log = logFile === undefined ? 'inherit' : fs.openSync(logFile, 'a')
  const child = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', log], env: environment })
  if (typeof log === 'number') fs.closeSync(log)
  const line = await firstOf(child, child.stdout as Readable, 'data')
  const { address, first_key } = JSON.parse(String(line)) as { address: string; first_key?: { key: string } }
  return {
    port: Number(new URL(address).port),
    key: first_key?.key ?? '',
    pid: child.pid as number,
    stop: async () => {
      if (child.exitCode !== null || child.signalCode !== null) return child.exitCode
      const exited = once(child, 'exit')
      child.kill('SIGTERM')
      const [code] = await exited
      return code as number | null
    },
  }
}

/** What an event brings, unless the process ends before. */
async function firstOf(child: ChildProcess, emitter: EventEmitter, event: string): Promise<unknown> {
  const settled = new AbortController()
  const { signal } = settled
  const ended = once(child, 'exit', { signal }).then(([code]) => {
    throw new Error(`A process of the benchmark ended with ${code}.`)
  })
  try {
    const [value] = await Promise.race([once(emitter, event, { signal }), ended])
    return value
  } finally {
    ended.catch(() => {})
    settled.abort()
  }
}

/** A version of each of the cells, one after the other: new cells get theirs within the lag, and none of that is the cost of a commit. */
export async function storeVersions({ port, key }: Served, cellIds: Iterable<string>): Promise<void> {
  for (const id of cellIds) {
    const url = `http://127.0.0.1:${port}/v1/databases/${id}/backup`
    const response = await fetch(url, { method: 'POST', headers: { 'x-api-key': key } })
    if (!response.ok) throw new Error(`A cell was not backed up: ${await response.text()}`)
  }
}

/** The load's process: what it costs must not be the server's cost. */
export class Client {
  readonly #child = fork(path.join(here, 'http-load.ts'))

  async run(load: Load): Promise<LoadResult> {
    this.#child.send(load)
    const result = (await firstOf(this.#child, this.#child, 'message')) as LoadResult | LoadFailure
    if ('failed' in result) throw new Error(result.failed)
    return result
  }

  stop(): void {
    if (this.#child.connected) this.#child.disconnect()
  }
}

/** Milliseconds of processor time that a process and its children have had; NaN where the system does not tell. */
export function cpuMs(pid: number): number {
  return ofTree(pid, (each) => {
    const stat = fs.readFileSync(`/proc/${each}/stat`, 'utf8')
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
    return (Number(fields[11]) + Number(fields[12])) * MS_PER_TICK
  })
}

/** MB of memory that a process and its children have now, what they share in parts; NaN where the system does not tell. */
export function memoryMb(pid: number): number {
  return ofTree(pid, (each) => {
    const rollup = fs.readFileSync(`/proc/${each}/smaps_rollup`, 'utf8')
    return (Number(/^Pss:\s+(\d+)/m.exec(rollup)?.[1]) * 1_024) / 1e6
  })
}

function ofTree(pid: number, figure: (pid: number) => number): number {
  try {
    const children = fs.readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').split(' ').filter(Boolean)
    return children.reduce((sum, child) => sum + ofTree(Number(child), figure), figure(pid))
  } catch {
    return Number.NaN
  }
}

/** The unit of /proc is a hundredth of a second on every Linux. */
const MS_PER_TICK = 10
