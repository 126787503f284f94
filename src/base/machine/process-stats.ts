import fs from 'node:fs'

const PAGE_BYTES = 4_096
const NS_A_MS = 1_000_000
const LINE_BYTES_MAX = 128

/** Never looked at between two reads, and so one for all. */
const line = Buffer.alloc(LINE_BYTES_MAX)

type File = 'statm' | 'schedstat'

/**
 * Figures about a process from Linux's /proc; 0 if they are unknown: on other systems, and of a process that has ended. Its files stay open,
 * since to open one takes longer than to read it, and name no later process with the same id.
 */
export class ProcessStats {
  readonly #pid: number
  readonly #descriptors = new Map<File, number>()
  #isClosed = false

  constructor(pid: number) {
    this.#pid = pid
  }

  /** Resident memory in bytes (man 5 proc, statm). */
  residentBytes(): number {
    return PAGE_BYTES * this.#field('statm', 1)
  }

  /**
   * Milliseconds that the process's first thread was ready to run but had no processor. It is the second
   * field of schedstat (see the kernel's scheduler/sched-stats).
   */
  waitedMs(): number {
    return this.#field('schedstat', 1) / NS_A_MS
  }

  /** Milliseconds that the process's first thread ran on a processor. */
  processorMs(): number {
    return this.#field('schedstat', 0) / NS_A_MS
  }

  /** Closes the files. Everything is unknown from here on. */
  close(): void {
    this.#isClosed = true
    for (const descriptor of this.#descriptors.values()) fs.closeSync(descriptor)
    this.#descriptors.clear()
  }

  #field(file: File, at: number): number {
    if (this.#isClosed) return 0
    try {
      const length = fs.readSync(this.#opened(file), line, 0, line.length, 0)
      return Number(line.toString('latin1', 0, length).split(' ')[at]) || 0
    } catch {
      return 0
    }
  }

  #opened(file: File): number {
    let descriptor = this.#descriptors.get(file)
    if (descriptor === undefined) {
      descriptor = fs.openSync(`/proc/${this.#pid}/${file}`, 'r')
      this.#descriptors.set(file, descriptor)
    }
    return descriptor
  }
}
