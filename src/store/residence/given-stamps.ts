import type { CutCall } from '../../backup/changes/log/cell-cutter.ts'
import { parseVersion } from '../../backup/versions/object-keys.ts'
import { RANGES, type RangeSpan, rangeOf } from '../../catalog/assignment/assignment.ts'

/**
 * The newest stamps that this process has given in each range, noted before anything is stored under them. A tenure that the node ends
 * itself ends with them; what others stamp after that follows at once.
 */
export class GivenStamps {
  /** Epoch milliseconds, by range. */
  readonly #newest = new Float64Array(RANGES)
  /** Ranges that have come since the start: in their tenure, no earlier process of this node has stamped anything. */
  readonly #came = new Uint8Array(RANGES)

  /** @param name of a version, or that of a mark's place in the order */
  note(cellId: string, name: string): void {
    const range = rangeOf(cellId)
    const time = parseVersion(name)?.time ?? 0
    if (time > (this.#newest[range] ?? time)) this.#newest[range] = time
  }

  /** Notes the version that a step of a backup is about to make. */
  noteCut(cellId: string, { method, args }: CutCall): void {
    if (method === 'endBase') this.note(cellId, args[1])
    else if (method === 'cutIncremental' || method === 'claimVersion') this.note(cellId, args[0])
  }

  /** A tenure of these ranges begins. */
  came(spans: readonly RangeSpan[]): void {
    for (const { lo, hi } of spans) this.#came.fill(1, lo, hi + 1)
  }

  /**
   * The newest stamp that the node has given in the present tenures of some ranges, or a later time. Epoch milliseconds.
   *
   * @param earlier what processes of this node before this one can have stamped
   */
  newestIn(spans: readonly RangeSpan[], earlier: number): number {
    let newest = 0
    for (const { lo, hi } of spans)
      for (let range = lo; range <= hi; range++)
        newest = Math.max(newest, this.#newest[range] ?? 0, this.#came[range] === 1 ? 0 : earlier)
    return newest
  }
}
