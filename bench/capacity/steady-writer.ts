import type { BenchNode } from './bench-node.ts'

/** How the writes of a time went. */
export interface WriterFigures {
  perSecond: number
  medianMs: number
  p99Ms: number
  longestMs: number
}

const TICK_MS = 10

/** Writes so many rows a second to a cell, each durable and in a transaction with a tally. It never waits for an answer. */
export class SteadyWriter {
  readonly #node: BenchNode
  readonly #cellId: string
  readonly #perSecond: number
  readonly #timer: NodeJS.Timeout
  readonly #underWay = new Set<Promise<void>>()
  readonly #started = performance.now()
  #sent = 0
  #times: number[] = []
  #since = performance.now()
  failed = 0

  constructor(node: BenchNode, cellId: string, perSecond: number) {
    this.#node = node
    this.#cellId = cellId
    this.#perSecond = perSecond
    this.#timer = setInterval(() => this.#tick(), TICK_MS)
  }

  static readonly schema = [
    'CREATE TABLE log (n INTEGER PRIMARY KEY, text TEXT)',
    'CREATE TABLE tally (entries INTEGER)',
    'INSERT INTO tally VALUES (0)',
  ]

  /** Figures since the last call. */
  figures(): WriterFigures {
    const sorted = this.#times.sort((a, b) => a - b)
    const at = (share: number) => sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? 0
    const seconds = (performance.now() - this.#since) / 1_000
    const figures = {
      perSecond: sorted.length / seconds,
      medianMs: at(0.5),
      p99Ms: at(0.99),
      longestMs: at(1),
    }
    this.#times = []
    this.#since = performance.now()
    return figures
  }

  async stop(): Promise<void> {
    clearInterval(this.#timer)
    await Promise.all(this.#underWay)
  }

  #tick(): void {
    const due = Math.floor(((performance.now() - this.#started) / 1_000) * this.#perSecond)
    for (; this.#sent < due; this.#sent++) {
      const write: Promise<void> = this.#write(this.#sent).finally(() => this.#underWay.delete(write))
      this.#underWay.add(write)
    }
  }

  async #write(n: number): Promise<void> {
    const started = performance.now()
    try {
      await this.#node.service.execute(this.#cellId, {
        op: 'batch',
        operations: [
          { op: 'sql', sql: 'INSERT INTO log VALUES (?, ?)', params: [n, `${n} `.repeat(30)] },
          { op: 'sql', sql: 'UPDATE tally SET entries = entries + 1' },
        ],
      })
      this.#times.push(performance.now() - started)
    } catch (error) {
      if (this.failed++ === 0) console.error('a write has failed:', error)
    }
  }
}
