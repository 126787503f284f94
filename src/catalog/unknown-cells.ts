import type { Catalog } from './catalog.ts'

/** From when to when cells may have been made that the catalog has never heard of, in epoch milliseconds. */
interface Span {
  from: number
  until: number
}

const KEY = 'unknown_cells'
/** Nodes have clocks of their own. */
const CLOCKS_DIFFER_MS = 3_600_000

/**
 * Why the catalog may lack a cell: it was deleted and forgotten, or the catalog came back from a backup that is older than the cell,
 * or another node has made it meanwhile. The catalog keeps the times of which that can be said; of all others it is the first.
 */
export class UnknownCells {
  readonly #catalog: Catalog

  constructor(catalog: Catalog) {
    this.#catalog = catalog
  }

  /** Cells may have been made without the catalog's knowledge. */
  note({ from, until }: Span): void {
    const span = { from: from - CLOCKS_DIFFER_MS, until: until + CLOCKS_DIFFER_MS }
    // A take-over begins at 0: what it covers need not be kept, however often nodes take over.
    const others = this.#spans.filter((each) => each.from < span.from || each.until > span.until)
    this.#catalog.setMeta(KEY, JSON.stringify([...others, span]))
  }

  /** Whether a cell may exist that the catalog lacks, if it has committed something at this time (epoch milliseconds). */
  mayExist(committedAt: number): boolean {
    return this.#spans.some(({ from, until }) => committedAt >= from && committedAt <= until)
  }

  get #spans(): Span[] {
    return JSON.parse(this.#catalog.meta(KEY) ?? '[]') as Span[]
  }
}
