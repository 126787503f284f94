import fs from 'node:fs'
import { SourceMap } from 'node:module'
import path from 'node:path'
import { fileURLToPath } from 'node:url'

/** The start and the end of a piece of work, in microseconds of `process.hrtime()`: V8's profiles have the same clock. */
export interface Span {
  from: number
  until: number
}

/** What V8 writes with `--cpu-prof`; times in microseconds. */
interface CpuProfile {
  nodes: ProfileNode[]
  startTime: number
  samples: number[]
  timeDeltas: number[]
}

interface ProfileNode {
  id: number
  callFrame: { functionName: string; url: string; lineNumber: number; columnNumber: number }
  children?: number[]
}

/** Processes of a node; the command itself is `node`. */
const ROLES = { worker: 'worker.js', archiver: 'archiver.js', checker: 'checker.js', node: 'cellstore.js' }

/** One process, as V8 saw it. */
export class Profile {
  readonly role: string
  readonly #profile: CpuProfile
  readonly #labels = new Map<number, string | undefined>()

  constructor(file: string) {
    this.#profile = JSON.parse(fs.readFileSync(file, 'utf8')) as CpuProfile
    const scripts = new Set(this.#profile.nodes.map(({ callFrame }) => path.basename(callFrame.url)))
    this.role = Object.entries(ROLES).find(([, script]) => scripts.has(script))?.[0] ?? 'thread'
    this.#label()
  }

  /** Microseconds by what ran. */
  during({ from, until }: Span): Map<string, number> {
    const times = new Map<string, number>()
    const { samples, timeDeltas, startTime } = this.#profile
    let at = startTime
    for (const [i, node] of samples.entries()) {
      at += timeDeltas[i] ?? 0
      const label = this.#labels.get(node)
      // A sample stands for the time up to the next one.
      if (at < from || at > until || label === undefined) continue
      times.set(label, (times.get(label) ?? 0) + Math.max(0, timeDeltas[i + 1] ?? 0))
    }
    return times
  }

  #label(): void {
    const byId = new Map(this.#profile.nodes.map((node) => [node.id, node]))
    const visit = (node: ProfileNode, ours: string | undefined) => {
      const own = ourName(node.callFrame) ?? ours
      this.#labels.set(node.id, isIdle(node) ? undefined : (own ?? otherName(node.callFrame)))
      for (const child of node.children ?? []) visit(byId.get(child) as ProfileNode, own)
    }
    const [root] = this.#profile.nodes
    if (root !== undefined) visit(root, undefined)
  }
}

export interface TimeOf {
  role: string
  /** A function, or what ran outside of ours. */
  label: string
  microseconds: number
}

/** What the processes of a node did in a span, most time first. */
export function timesOf(profiles: readonly Profile[], span: Span): TimeOf[] {
  const sums = new Map<string, TimeOf>()
  for (const profile of profiles)
    for (const [label, microseconds] of profile.during(span)) {
      const { role } = profile
      const sum = sums.get(`${role} ${label}`) ?? { role, label, microseconds: 0 }
      sum.microseconds += microseconds
      sums.set(`${role} ${label}`, sum)
    }
  return [...sums.values()].sort((a, b) => b.microseconds - a.microseconds)
}

export function readProfiles(folder: string): Profile[] {
  return fs.readdirSync(folder).map((file) => new Profile(path.join(folder, file)))
}

function isIdle({ callFrame: { functionName } }: ProfileNode): boolean {
  return functionName === '(idle)' || functionName === '(root)'
}

const maps = new Map<string, SourceMap | undefined>()

function mapOf(file: string): SourceMap | undefined {
  if (!maps.has(file)) {
    const map = `${file}.map`
    maps.set(file, fs.existsSync(map) ? new SourceMap(JSON.parse(fs.readFileSync(map, 'utf8'))) : undefined)
  }
  return maps.get(file)
}

/** A function of ours by its name and its file in `src/`. */
function ourName(frame: ProfileNode['callFrame']): string | undefined {
  if (!frame.url.startsWith('file:') || frame.url.includes('/node_modules/')) return undefined
  const entry = mapOf(fileURLToPath(frame.url))?.findEntry(frame.lineNumber, frame.columnNumber)
  if (entry === undefined || !('originalSource' in entry)) return undefined
  const [, source] = String(entry.originalSource).split('/src/')
  return source === undefined ? undefined : `${frame.functionName || '(a callback)'}, ${source}`
}

function otherName({ functionName, url }: ProfileNode['callFrame']): string {
  if (url.startsWith('node:')) return `Node.js, ${url}`
  if (functionName === '(garbage collector)') return 'garbage collection'
  return functionName === '(program)' || url === ''
    ? 'Node.js, outside of JavaScript'
    : `packages, ${packageOf(url)}`
}

function packageOf(url: string): string {
  return /\/node_modules\/((?:@[^/]+\/)?[^/]+)/.exec(url)?.[1] ?? path.basename(url)
}
