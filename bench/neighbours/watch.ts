import fs from 'node:fs'

const EVERY_MS = 50
const MIB_OF_KIB = 1 / 1_024

export interface Seen {
  /** Peak resident memory, in MiB. */
  nodeMib: number
  workerMib: number
  /** Workers that ended. */
  ended: number
  /** Of them, those that had the neighbour's cell open. */
  endedOfNeighbour: number
}

/** Looks at a node and its workers through /proc, until stopped. */
export class Watch {
  readonly #pid: number
  readonly #cell: string
  readonly #timer: NodeJS.Timeout
  readonly #workers = new Map<number, { isOfNeighbour: boolean; isAlive: boolean }>()
  #workerMib = 0
  #nodeMib = 0

  /** @param cell the neighbour's */
  constructor(pid: number, cell: string) {
    this.#pid = pid
    this.#cell = cell
    this.#timer = setInterval(() => this.#look(), EVERY_MS)
    resetPeak(pid)
    for (const worker of childrenOf(pid)) resetPeak(worker)
    this.#look()
  }

  stop(): Seen {
    clearInterval(this.#timer)
    this.#look()
    const ended = [...this.#workers.values()].filter(({ isAlive }) => !isAlive)
    return {
      nodeMib: this.#nodeMib,
      workerMib: this.#workerMib,
      ended: ended.length,
      endedOfNeighbour: ended.filter(({ isOfNeighbour }) => isOfNeighbour).length,
    }
  }

  #look(): void {
    this.#nodeMib = Math.max(this.#nodeMib, peakMib(this.#pid))
    const alive = childrenOf(this.#pid)
    for (const worker of this.#workers.values()) worker.isAlive = false
    for (const pid of alive) {
      this.#workers.set(pid, { isOfNeighbour: hasOpen(pid, this.#cell), isAlive: true })
      this.#workerMib = Math.max(this.#workerMib, peakMib(pid))
    }
  }
}

function childrenOf(pid: number): number[] {
  return read(`/proc/${pid}/task/${pid}/children`).split(' ').filter(Boolean).map(Number)
}

/** Of the time since {@link resetPeak}. */
function peakMib(pid: number): number {
  return Number(/^VmHWM:\s+(\d+)/m.exec(read(`/proc/${pid}/status`))?.[1] ?? 0) * MIB_OF_KIB
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
