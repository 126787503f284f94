import { Emitter } from '../../base/async/emitter.ts'
import { newCellId } from '../../base/files/store-paths.ts'
import { type Assignment, rangeOf, spansOf, withRange } from '../../catalog/assignment/assignment.ts'
import type { CellOwner, Ownership } from '../../catalog/assignment/ownership.ts'
import { CellError } from '../../errors.ts'
import type { Lease } from '../membership/lease.ts'
import { ownersOf, rangesOf } from './range-map.ts'

/** A node that has lost its lease has it back, or is taken over, in about that time. */
const RETRY_MS = 1_000
/** Versions are made for so long after the last beat. */
const STAMP_AHEAD_MS = 60_000
/**
 * For versions of a cell whose node before was ahead: each takes a millisecond. Less than a take-over takes, so that a row of them
 * does not go further and further ahead.
 */
const STAMPS_OF_A_TAKER_MS = 5_000

interface ClusterOwnershipParts {
  nodeId: string
  /** Of the node's own objects in the bucket. */
  prefix: string
  lease: Pick<Lease, 'isValid'>
  /** Of another node, if it is known. */
  addressOf(nodeId: string): string | undefined
  random: () => number
}

/** Ranges that came, and ranges that went, with an assignment. */
interface Change {
  gained: readonly number[]
  lost: readonly number[]
}

/** Who has which cells, as the newest assignment says that this node knows: a number only goes up (C6). */
export class ClusterOwnership implements Ownership {
  /** Emitted when ranges have another owner, or begin or end to move. */
  readonly changed = new Emitter()
  readonly #parts: ClusterOwnershipParts
  #assignment: Assignment | undefined
  #owners: readonly string[] = []
  #own: ReadonlySet<number> = new Set()
  #ownList: readonly number[] = []
  readonly #handingOver = new Set<number>()
  /** This node's by the assignment, and not ready: what it has left here of an earlier tenure is in the way. */
  readonly #arriving = new Set<number>()

  constructor(parts: ClusterOwnershipParts) {
    this.#parts = parts
  }

  /** Undefined before the first one is known. */
  get assignment(): Assignment | undefined {
    return this.#assignment
  }

  get prefix(): string {
    return this.#parts.prefix
  }

  /** Of the last beat that has succeeded. */
  stampBound = 0
  /** Known from the join on. */
  earlierStamps = Number.POSITIVE_INFINITY

  /** What the next beat is to say of it: never less than before, and after all that the owners before could stamp. */
  nextStampBound(now: number): number {
    return Math.max(this.stampBound, now + STAMP_AHEAD_MS, this.#firstStamps())
  }

  /** What a process before this one can have stamped at most, if nobody else knows. */
  stampBoundAtStart(now: number): number {
    return Math.max(now, this.#firstStamps())
  }

  #firstStamps(): number {
    const spans = this.#assignment === undefined ? [] : spansOf(this.#assignment, this.#parts.nodeId)
    const bounds = spans.flatMap(({ before }) => before.map(({ stampBound }) => stampBound))
    return Math.max(0, ...bounds) + STAMPS_OF_A_TAKER_MS
  }

  /** 0: none is known. */
  get number(): number {
    return this.#assignment?.n ?? 0
  }

  /** This node's, ascending; also those that it is handing over. */
  get ranges(): readonly number[] {
    return this.#ownList
  }

  /** Whether some are served here just now. */
  get servesSome(): boolean {
    return this.#ownList.some((range) => !this.#isMoving(range))
  }

  /**
   * Goes by this assignment from now on, unless a newer one is known. Ranges that come wait for {@link arrived}.
   */
  adopt(assignment: Assignment): Change {
    if (assignment.n <= this.number) return { gained: [], lost: [] }
    const before = this.#own
    this.#ownList = rangesOf(assignment, this.#parts.nodeId)
    this.#owners = ownersOf(assignment)
    this.#own = new Set(this.#ownList)
    this.#assignment = assignment
    const lost = [...before].filter((range) => !this.#own.has(range))
    for (const range of lost) {
      this.#handingOver.delete(range)
      this.#arriving.delete(range)
    }
    const gained = this.#ownList.filter((range) => !before.has(range))
    for (const range of gained) this.#arriving.add(range)
    this.changed.emit()
    return { gained, lost }
  }

  /** The cells of these ranges are served here now, if they are still this node's. */
  arrived(ranges: readonly number[]): void {
    for (const range of ranges) this.#arriving.delete(range)
    this.changed.emit()
  }

  /** The cells of these ranges are nobody's until {@link adopt}, or until {@link keep}. */
  handOver(ranges: readonly number[]): void {
    for (const range of ranges) this.#handingOver.add(range)
    this.changed.emit()
  }

  keep(ranges: readonly number[]): void {
    for (const range of ranges) this.#handingOver.delete(range)
    this.changed.emit()
  }

  isHere(cellId: string): boolean {
    const range = rangeOf(cellId)
    return this.#own.has(range) && !this.#isMoving(range)
  }

  ownerOf(cellId: string): CellOwner {
    const range = rangeOf(cellId)
    if (this.#isMoving(range)) return 'moving'
    if (this.#own.has(range)) return 'here'
    const nodeId = this.#owners[range]
    const address = nodeId === undefined ? undefined : this.#parts.addressOf(nodeId)
    return nodeId === undefined || address === undefined ? 'moving' : { nodeId, address }
  }

  assertMayAnswer(): void {
    if (this.#parts.lease.isValid()) return
    throw notServing(
      'Neither PostgreSQL nor the object store has vouched for this node of late, so another one may have its cells. What this request has changed may be kept or not.',
    )
  }

  newCellId(): string {
    const areAll = this.#handingOver.size + this.#arriving.size === 0
    const free = areAll ? this.#ownList : this.#ownList.filter((range) => !this.#isMoving(range))
    const range = free[Math.floor(this.#parts.random() * free.length)]
    if (range !== undefined) return withRange(newCellId(), range)
    throw new CellError('cell_moving', 'This node has no cells of its own just now.', {
      retryAfterMs: RETRY_MS,
    })
  }

  #isMoving(range: number): boolean {
    return this.#handingOver.has(range) || this.#arriving.has(range)
  }
}

function notServing(message: string): CellError {
  return new CellError('not_serving', message, { retryAfterMs: RETRY_MS })
}
