import { isInSpans, logsLeftTo, type RangeSpan, rangeOf } from '../../catalog/assignment/assignment.ts'
import type { Ownership } from '../../catalog/assignment/ownership.ts'
import { CellError } from '../../errors.ts'
import { GivenStamps } from './given-stamps.ts'

/** When to try again: a planned move takes about so long. */
const RETRY_MS = 250

/**
 * Which cells this node serves now: those of its ranges, but for ranges that are being handed over. It counts the requests that
 * run, so that a release can wait for their end.
 */
export class Residence {
  /** Of the versions that this node makes. */
  readonly stamps = new GivenStamps()
  readonly #ownership: Ownership
  /** Handed over, or about to be: no work of the node's own begins there. */
  #leaving: RangeSpan[] = []
  /** Of them, those whose requests are refused. */
  #released: RangeSpan[] = []
  /** Requests under way, by range. */
  readonly #running = new Map<number, number>()
  readonly #waiting = new Set<{ spans: readonly RangeSpan[]; resolve: () => void }>()

  constructor(ownership: Ownership) {
    this.#ownership = ownership
  }

  /** As in `CellPort`. */
  get logsLeft(): string[] {
    const { assignment, prefix } = this.#ownership
    return assignment === undefined ? [] : logsLeftTo(assignment, prefix)
  }

  /** Whether this node serves the cell. */
  isHere(cellId: string): boolean {
    const { assignment } = this.#ownership
    // What is no id is nobody's cell.
    if (assignment === undefined || Number.isNaN(rangeOf(cellId))) return true
    return this.#ownership.isHere(cellId) && !isInSpans(rangeOf(cellId), this.#released)
  }

  /** Whether work that nobody waits for may begin. */
  mayBegin(cellId: string): boolean {
    return this.isHere(cellId) && !isInSpans(rangeOf(cellId), this.#leaving)
  }

  /** @throws `cell_moving` */
  assertHere(cellId: string): void {
    if (!this.isHere(cellId)) throw notHere()
  }

  /** A request of the cell begins. @returns call it when it has ended @throws `cell_moving` */
  enter(cellId: string): () => void {
    if (this.#ownership.assignment === undefined) return () => {}
    this.assertHere(cellId)
    const range = rangeOf(cellId)
    this.#running.set(range, (this.#running.get(range) ?? 0) + 1)
    let isOver = false
    return () => {
      if (isOver) return
      isOver = true
      this.#left(range)
    }
  }

  /** As {@link enter}, until the work has ended. */
  async during<T>(cellId: string, work: () => T | Promise<T>): Promise<T> {
    const leave = this.enter(cellId)
    try {
      return await work()
    } finally {
      leave()
    }
  }

  /** The ranges will be released: what is under way goes on, and requests are served. */
  leave(spans: readonly RangeSpan[]): void {
    this.#leaving = [...this.#leaving, ...spans]
  }

  /** Requests of the ranges are refused from here on. Resolves once none runs. @throws the signal's reason */
  async release(spans: readonly RangeSpan[], signal?: AbortSignal): Promise<void> {
    this.#released = [...this.#released, ...spans]
    signal?.throwIfAborted()
    if (this.#isIdle(spans)) return
    const idle = Promise.withResolvers<void>()
    const waiting = { spans, resolve: idle.resolve }
    const abort = () => idle.reject(signal?.reason)
    this.#waiting.add(waiting)
    signal?.addEventListener('abort', abort, { once: true })
    try {
      await idle.promise
    } finally {
      this.#waiting.delete(waiting)
      signal?.removeEventListener('abort', abort)
    }
  }

  /** The ranges are as the assignment says. */
  settle(spans: readonly RangeSpan[]): void {
    this.#leaving = without(this.#leaving, spans)
    this.#released = without(this.#released, spans)
  }

  #left(range: number): void {
    const count = (this.#running.get(range) ?? 1) - 1
    if (count > 0) this.#running.set(range, count)
    else this.#running.delete(range)
    for (const { spans, resolve } of this.#waiting) if (this.#isIdle(spans)) resolve()
  }

  #isIdle(spans: readonly RangeSpan[]): boolean {
    for (const range of this.#running.keys()) if (isInSpans(range, spans)) return false
    return true
  }
}

/** What is left of some spans. */
function without(spans: readonly RangeSpan[], gone: readonly RangeSpan[]): RangeSpan[] {
  let left = [...spans]
  for (const { lo, hi } of gone)
    left = left.flatMap((span) => {
      if (span.hi < lo || span.lo > hi) return [span]
      const parts = [
        { lo: span.lo, hi: lo - 1 },
        { lo: hi + 1, hi: span.hi },
      ]
      return parts.filter((part) => part.lo <= part.hi)
    })
  return left
}

export function notHere(): CellError {
  return new CellError(
    'cell_moving',
    'The cell is not at this node, or is on its way to another one. Nothing was done. Try again.',
    { retryAfterMs: RETRY_MS },
  )
}
