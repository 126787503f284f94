import fs from 'node:fs/promises'
import { mapLimit } from '../../base/async/map-limit.ts'
import { type Clock, turnOfTheLoop } from '../../base/clock.ts'
import type { StorePaths } from '../../base/files/store-paths.ts'
import type { CellRegistry } from '../../catalog/cell-registry.ts'
import { type QuarantineState, readQuarantine } from '../../engine/quarantine.ts'
import type { CellFiles } from '../open/cell-files.ts'
import type { UnreadableCells } from '../open/unreadable-cells.ts'
import type { Residence } from '../residence/residence.ts'

interface LargeCell {
  cellId: string
  /** Of the database and its write-ahead log. */
  sizeBytes: number
}

interface QuarantinedCell extends QuarantineState {
  cellId: string
}

/** What the files of all cells say that this node serves. */
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

interface CensusParts {
  registry: CellRegistry
  files: CellFiles
  paths: StorePaths
  unreadable: UnreadableCells
  residence: Residence
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
    const { registry, residence, clock } = this.#parts
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
      for (const { id } of page.cells) if (residence.isHere(id)) this.#add(census, id)
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

interface CellLooksParts {
  paths: StorePaths
  unreadable: UnreadableCells
}

/** Questions to the system at a time: each takes a thread of the pool, which the fsyncs of commits need too. */
const AT_ONCE = 4

/** What a cell's files say of it. */
export interface CellLook {
  /** Bytes of database and WAL; 0 without local data, or if it cannot be read. */
  sizeBytes: number
  /** It is kept closed, or cannot be read. */
  isQuarantined: boolean
}

/** Looks at the files of cells, and does not hold up the event loop. */
export async function lookAtCells(
  { paths, unreadable }: CellLooksParts,
  ids: readonly string[],
): Promise<CellLook[]> {
  const look = (id: string) => unreadable.lookAside(id, () => lookAtCell(paths, id))
  return await mapLimit(ids, AT_ONCE, async (id) => (await look(id)) ?? { sizeBytes: 0, isQuarantined: true })
}

async function lookAtCell(paths: StorePaths, id: string): Promise<CellLook> {
  const { database, wal, quarantine } = paths.cell(id)
  const sizeBytes = (await sizeOfFile(database)) + (await sizeOfFile(wal))
  return { sizeBytes, isQuarantined: (await sizeOfFile(quarantine)) > 0 }
}

async function sizeOfFile(file: string): Promise<number> {
  try {
    return (await fs.stat(file)).size
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return 0
    throw error
  }
}
