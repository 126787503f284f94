import fs from 'node:fs'

const EVERY_MS = 50
const MB_OF_KIB = 1_024 / 1e6

export interface Seen {
  /** Peak resident memory, in MB. */
  nodeMb: number
  /** The processes of the workers that had the neighbour's cell open. */
  ofNeighbour: ReadonlySet<number>
}

/** Looks at a node and its workers through /proc, until stopped. */
export class Watch {
  readonly #pid: number
  readonly #cell: string
  readonly #timer: NodeJS.Timeout
  readonly #ofNeighbour = new Set<number>()
  #nodeMb = 0

  /** @param cell the neighbour's */
  constructor(pid: number, cell: string) {
    this.#pid = pid
    this.#cell = cell
    this.#timer = setInterval(() => this.#look(), EVERY_MS)
    resetPeak(pid)
    this.#look()
  }

  stop(): Seen {
    clearInterval(this.#timer)
    this.#look()
    return { nodeMb: this.#nodeMb, ofNeighbour: this.#ofNeighbour }
  }

  #look(): void {
    this.#nodeMb = Math.max(this.#nodeMb, peakMb(this.#pid))
    for (const pid of childrenOf(this.#pid)) if (hasOpen(pid, this.#cell)) this.#ofNeighbour.add(pid)
  }
}

function childrenOf(pid: number): number[] {
  return read(`/proc/${pid}/task/${pid}/children`).split(' ').filter(Boolean).map(Number)
}

/** Of the time since {@link resetPeak}. */
function peakMb(pid: number): number {
  return Number(/^VmHWM:\s+(\d+)/m.exec(read(`/proc/${pid}/status`))?.[1] ?? 0) * MB_OF_KIB
}

function resetPeak(pid: number): void {
  try {
    fs.writeFileSync(`/proc/${pid}/clear_refs`, '5')
  } catch {
    // Not allowed here: then the peak is that of the process's life.
  }
}

function hasOpen(pid: number, cell: string): boolean {
  try {
    return fs.readdirSync(`/proc/${pid}/fd`).some((fd) => linkOf(`/proc/${pid}/fd/${fd}`).includes(cell))
  } catch {
    return false
  }
}

function linkOf(file: string): string {
  try {
    return fs.readlinkSync(file)
  } catch {
    return ''
  }
}

function read(file: string): string {
  try {
    return fs.readFileSync(file, 'utf8')
  } catch {
    return ''
  }
}
