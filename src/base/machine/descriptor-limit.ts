import fs from 'node:fs'

/** An open cell: database, log, shared memory, and one for reading the log, or the database for a snapshot. */
const DESCRIPTORS_PER_CELL = 4
/** For sockets, temporary files and the process itself. */
const DESCRIPTORS_RESERVED = 512
const OPEN_CELLS_MAX = 1_000
const OPEN_CELLS_MIN = 16
/** What a server needs for pipes, temporary files and calls to the object store. */
const DESCRIPTORS_OF_A_SERVER = 256
const CONNECTIONS_MAX = 10_000
const CONNECTIONS_MIN = 64
/** Assumed if the system does not say: what macOS starts a process with. */
const DESCRIPTORS_ASSUMED = 2_560

/** How many cells a process can keep open without running out of descriptors. */
export function openCellsFor(descriptors = descriptorLimit()): number {
  const affordable = Math.floor((descriptors - DESCRIPTORS_RESERVED) / DESCRIPTORS_PER_CELL)
  return Math.max(OPEN_CELLS_MIN, Math.min(OPEN_CELLS_MAX, affordable))
}

/**
 * How many connections a process can serve in addition to its open cells.
 *
 * @param each descriptors of a connection
 */
export function connectionsFor(openCells: number, descriptors = descriptorLimit(), each = 1): number {
  const left = descriptors - DESCRIPTORS_OF_A_SERVER - openCells * DESCRIPTORS_PER_CELL
  const affordable = Math.floor(left / each)
  return Math.max(CONNECTIONS_MIN, Math.min(CONNECTIONS_MAX, affordable))
}

function descriptorLimit(): number {
  try {
    const line = /^Max open files\s+(\d+|unlimited)/m.exec(fs.readFileSync('/proc/self/limits', 'utf8'))
    return line?.[1] === 'unlimited' ? Number.POSITIVE_INFINITY : Number(line?.[1] ?? DESCRIPTORS_ASSUMED)
  } catch {
    return DESCRIPTORS_ASSUMED
  }
}
