import { type Clock, turnOfTheLoop } from '../../base/clock.ts'
import type { StorePaths } from '../../base/files/store-paths.ts'
import type { CellRegistry } from '../../catalog/cell-registry.ts'
import { type QuarantineState, readQuarantine } from '../../engine/quarantine.ts'
import type { CellFiles } from '../open/cell-files.ts'
import type { UnreadableCells } from '../open/unreadable-cells.ts'

export interface LargeCell {
  cellId: string
  /** Of the database and its write-ahead log. */
  sizeBytes: number
}

export interface QuarantinedCell extends QuarantineState {
  cellId: string
}

/** What the files of all cells say. */
export interface Census {
  cells: number
  bytes: number
  /** The largest first. */
  largest: LargeCell[]
  /** With those that are unreadable. */
  quarantined: QuarantinedCell[]
  /** `quarantined` holds no more than a thousand. */
  quarantinedCount: number
}

export interface CensusParts {
  registry: CellRegistry
  files: CellFiles
  paths: StorePaths
  unreadable: UnreadableCells
  clock: Clock
}

const LARGEST = 10
const QUARANTINED_MAX = 1_000
/** Cells whose files are looked at in one turn of the event loop. */
const PER_TURN = 64

/** Counts cells and their bytes by looking at their files, some in each turn of the event loop: it needs no open cell. */
export class CellCensus {
  readonly #parts: CensusParts
  #last: { census: Census; at: number } | undefined
  #running: Promise<Census> | undefined

  constructor(parts: CensusParts) {
    this.#parts = parts
  }

  /** @param maxAgeMs an earlier census that is no older will do; callers share one that is being taken */
  async take(maxAgeMs = 0): Promise<Census> {
    const last = this.#last
    if (last !== undefined && this.#parts.clock.monotonic() - last.at < maxAgeMs) return last.census
    this.#running ??= this.#take().finally(() => {
      this.#running = undefined
    })
    return await this.#running
  }

  async #take(): Promise<Census> {
    const { registry, clock } = this.#parts
    const census: Census = {
      cells: 0,
      bytes: 0,
      largest: [],
      quarantined: [],
      quarantinedCount: 0,
    }
    let cursor: string | undefined
    do {
      const page = registry.list({ cursor, limit: Math.min(PER_TURN, registry.pageMax) })
      for (const { id } of page.cells) this.#add(census, id)
      cursor = page.nextCursor ?? undefined
      await turnOfTheLoop()
    } while (cursor !== undefined)
    this.#last = { census, at: clock.monotonic() }
    return census
  }

  #add(census: Census, cellId: string): void {
    const { files, paths, unreadable, clock } = this.#parts
    census.cells++
    const state = unreadable.look(cellId, () => {
      addSize(census, cellId, files.sizeBytes(cellId))
      return readQuarantine(paths.cell(cellId), clock)
    })
    addQuarantined(census, cellId, unreadable.state(cellId) ?? state)
  }
}

function addSize(census: Census, cellId: string, sizeBytes: number): void {
  census.bytes += sizeBytes
  if (sizeBytes <= (census.largest[LARGEST - 1]?.sizeBytes ?? -1)) return
  census.largest.push({ cellId, sizeBytes })
  census.largest.sort((a, b) => b.sizeBytes - a.sizeBytes)
  census.largest.length = Math.min(census.largest.length, LARGEST)
}

function addQuarantined(census: Census, cellId: string, state: QuarantineState | undefined): void {
  if (state === undefined) return
  census.quarantinedCount++
  const { reason, since } = state
  if (census.quarantined.length < QUARANTINED_MAX) census.quarantined.push({ cellId, reason, since })
}
