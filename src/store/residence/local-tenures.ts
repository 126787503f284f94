import fs from 'node:fs'
import path from 'node:path'
import {
  DIRECTORY_MODE,
  exists,
  fsyncDirectory,
  fsyncReplaced,
  replaceFile,
} from '../../base/files/durable-files.ts'
import { isCellId, type StorePaths } from '../../base/files/store-paths.ts'
import {
  type Assignment,
  isInSpans,
  RANGES,
  type RangeSpan,
  rangeOf,
} from '../../catalog/assignment/assignment.ts'

/** A stretch of ranges whose files on this machine are those of a tenure. */
interface HeldSpan extends RangeSpan {
  tenure: number
}

/**
 * Of which tenures the cells' files on this machine are. A range can leave, be written elsewhere, and come back: what was left here
 * of its cells is stale then, and is never opened.
 */
export class LocalTenures {
  readonly #paths: StorePaths

  constructor(paths: StorePaths) {
    this.#paths = paths
  }

  /** Of some ranges, those whose files here, if there are any, are not of the node's present tenure. */
  stale(assignment: Assignment, prefix: string, among: readonly RangeSpan[] = [WHOLE]): RangeSpan[] {
    const current = currentTenures(assignment, prefix)
    const held = this.#held()
    const isStale = (range: number) => current[range] !== held[range] && isInSpans(range, among)
    return spansWhere((range) => (isStale(range) ? 1 : 0))
  }

  /** What files there are of some ranges is of the node's present tenures. Durable when it returns. */
  note(assignment: Assignment, prefix: string, among: readonly RangeSpan[] = [WHOLE]): void {
    const current = currentTenures(assignment, prefix)
    const held = this.#held()
    const tenureOf = (range: number) => (isInSpans(range, among) ? current[range] : held[range]) ?? NONE
    const { tenures, root } = this.#paths
    replaceFile(tenures, `${JSON.stringify(spansWhere(tenureOf))}\n`)
    fsyncReplaced(tenures)
    fsyncDirectory(root)
  }

  /** The cells with files on this machine, in some ranges. */
  cellsIn(spans: readonly RangeSpan[]): string[] {
    const { cells } = this.#paths
    if (spans.length === 0 || !exists(cells)) return []
    // A folder has sixteen ranges.
    const mayHave = (name: string) => {
      const lo = Number.parseInt(name, 16) * 16
      return spans.some((span) => span.lo <= lo + 15 && span.hi >= lo)
    }
    const folders = fs.readdirSync(cells).filter((name) => /^[0-9a-f]{2}$/.test(name) && mayHave(name))
    const ids = folders.flatMap((folder) => fs.readdirSync(path.join(cells, folder))).filter(isCellId)
    return ids.filter((id) => isInSpans(rangeOf(id), spans))
  }

  /** Moves the files of cells that nobody may open any more into a folder in the directory. @param name of the folder */
  setAside(cellIds: readonly string[], name: string): string {
    const folder = path.join(this.#paths.setAside(name), 'cells')
    fs.mkdirSync(folder, { recursive: true, mode: DIRECTORY_MODE })
    for (const id of cellIds) fs.renameSync(this.#paths.cell(id).directory, path.join(folder, id))
    for (const each of [folder, path.dirname(folder), this.#paths.root]) fsyncDirectory(each)
    return folder
  }

  /** By range. A directory without a note was never in a cluster: it has all cells of the first tenure. */
  #held(): Int32Array {
    return byRange(this.#read() ?? [{ ...WHOLE, tenure: 1 }])
  }

  #read(): HeldSpan[] | undefined {
    if (!exists(this.#paths.tenures)) return undefined
    try {
      const spans = JSON.parse(fs.readFileSync(this.#paths.tenures, 'utf8')) as HeldSpan[]
      const isWhole = spans.every((span) => [span.lo, span.hi, span.tenure].every(Number.isSafeInteger))
      return isWhole ? spans : []
    } catch {
      // Damaged: no file here is known to be of the present tenure.
      return []
    }
  }
}

const WHOLE: RangeSpan = { lo: 0, hi: RANGES - 1 }
const NONE = 0

/** By range, of those that the node with the prefix has. */
function currentTenures({ ranges, prefixes }: Assignment, prefix: string): Int32Array {
  return byRange(ranges.filter(({ node }) => prefixes[node] === prefix))
}

function byRange(spans: readonly HeldSpan[]): Int32Array {
  const tenures = new Int32Array(RANGES)
  for (const { lo, hi, tenure } of spans) tenures.fill(tenure, lo, hi + 1)
  return tenures
}

function spansWhere(tenureOf: (range: number) => number): HeldSpan[] {
  const spans: HeldSpan[] = []
  for (let range = 0; range < RANGES; range++) {
    const tenure = tenureOf(range)
    const last = spans.at(-1)
    if (tenure === NONE) continue
    if (last?.hi === range - 1 && last.tenure === tenure) last.hi = range
    else spans.push({ lo: range, hi: range, tenure })
  }
  return spans
}
