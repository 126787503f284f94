import { type BackOff, backOffMs } from '../../base/async/back-off.ts'
import { type Clock, delay } from '../../base/clock.ts'
import type { Log } from '../../base/log.ts'
import { type Assignment, afterMoves, type Move } from '../../catalog/assignment/assignment.ts'
import { CellError } from '../../errors.ts'
import type { CellHost, TenureEnd } from '../../store/cell-host.ts'
import type { AssignmentLog } from '../../store/start/assignment-log.ts'
import type { ClusterOwnership } from './cluster-ownership.ts'
import { ownersOf, rangesOf, toSpans } from './range-map.ts'

const BACK_OFF: BackOff = { minMs: 100, maxMs: 5_000 }

/** A node that gets ranges. */
export interface Target {
  id: string
  /** Of its objects in the bucket. */
  prefix: string
}

export interface MoverParts {
  self: string
  log: Pick<AssignmentLog, 'newest' | 'put'>
  ownership: ClusterOwnership
  host: CellHost
  /** Writes an assignment to the catalog, so that all nodes learn it in order. Goes on until it is there, or a newer one is. */
  publish(assignment: Assignment): Promise<void>
  /** Has the node that gets ranges build their open cells, while they are still served here. What is not built by then is restored later. */
  prepare(target: string, ranges: readonly number[]): Promise<void>
  /** Tells the others up to when this node may stamp versions: ranges that come raise that. */
  beat(): Promise<void>
  clock: Clock
  logger: Log
}

/**
 * Gives ranges of this node to others, and takes what a lost node had:
 *
 *     served ──release──▶ released ──put assign/<n>──▶ reassigned ──publish──▶ forgotten
 *        ▲                   │ the number is another's, and the ranges are still here: the next number
 *        └───────────────────┘ the release failed, or the target was taken over, and nothing was put
 *
 * Once a PUT was tried, nothing goes back: it may still be stored, and then the ranges are another node's (C5).
 */
export class Mover {
  readonly #parts: MoverParts
  #turn: Promise<unknown> = Promise.resolve()
  #moving = 0
  readonly #forgetting = new Set<Promise<unknown>>()

  constructor(parts: MoverParts) {
    this.#parts = parts
  }

  /** Ranges that are on their way. */
  get moving(): number {
    return this.#moving
  }

  /** Moves ranges of this node, one move after the other. @returns how many went @throws what the release throws */
  async move(ranges: readonly number[], target: Target): Promise<number> {
    const moved = await this.#inTurn(() => this.#move(ranges, target))
    if (moved === undefined) return 0
    // The next move need not wait for a PostgreSQL that is away.
    await this.#parts.publish(moved.put)
    const { count, put } = moved
    this.#parts.logger.info({ ranges: count, to: target.id, assignment: put.n }, 'cells were handed over')
    return count
  }

  /**
   * Gives what a lost node had to others. Resolves once the bucket says so: a PostgreSQL that was put back takes no change, not even
   * this one, before the lost node's row is gone.
   *
   * @returns what resolves once all nodes can learn of it
   */
  async takeOver(
    lost: Target,
    end: TenureEnd,
    share: (ranges: readonly number[]) => ReadonlyMap<Target, readonly number[]>,
  ): Promise<{ published: Promise<void> }> {
    const { publish, logger } = this.#parts
    // Beside a move, whose target may keep it waiting: each works out its assignment from the newest one.
    const put = await this.#put((newest) => {
      const shares = share(rangesOf(newest, lost.id))
      const moves = [...shares].flatMap(([{ id: node, prefix }, ranges]): Move[] =>
        toSpans(ranges).map((span) => ({ ...span, node, prefix, end })),
      )
      return moves.length === 0 ? undefined : afterMoves(newest, moves)
    })
    this.learn(put)
    const published = publish(put).catch((err: unknown) => {
      // Whoever sees an owner without a row looks at the bucket.
      logger.warn({ err, assignment: put.n }, 'the other nodes learn later who has which cells')
    })
    return { published }
  }

  /** An assignment that another node has made, or this one. */
  learn(assignment: Assignment): void {
    const { ownership, host, beat, logger } = this.#parts
    const { gained, lost } = ownership.adopt(assignment)
    if (gained.length > 0) {
      void this.#acquire(gained)
      // Otherwise the first versions of these cells would wait for the next one.
      beat().catch(() => {})
    }
    if (lost.length === 0) return
    const forgetting: Promise<unknown> = host
      .forget(toSpans(lost))
      .catch((err: unknown) => {
        // The next start sets them aside: they are of an ended tenure.
        logger.warn({ err }, 'could not remove the local files of cells that are on another node now')
      })
      .finally(() => this.#forgetting.delete(forgetting))
    this.#forgetting.add(forgetting)
  }

  /** Resolves once the files of all cells that went are gone. */
  async settled(): Promise<void> {
    await Promise.all(this.#forgetting)
  }

  /** Goes on until the ranges can be served here, or are another node's. */
  async #acquire(ranges: readonly number[]): Promise<void> {
    const { ownership, host, clock, logger } = this.#parts
    for (let failures = 0; ; failures++) {
      const own = new Set(ownership.ranges)
      const coming = ranges.filter((range) => own.has(range))
      try {
        await host.acquired(toSpans(coming))
        ownership.arrived(coming)
        return
      } catch (err) {
        logger.error({ err }, 'cells that are to come here can not be served yet; trying again')
        await delay(clock, backOffMs(failures, BACK_OFF))
      }
    }
  }

  /** @returns undefined: nothing went */
  async #move(
    ranges: readonly number[],
    target: Target,
  ): Promise<{ count: number; put: Assignment } | undefined> {
    const { self, ownership, host, prepare, beat } = this.#parts
    const own = new Set(ownership.ranges)
    const going = ranges.filter((range) => own.has(range))
    if (going.length === 0 || target.id === self) return undefined
    this.#moving = going.length
    const spans = toSpans(going)
    const ownsSome = ({ prefixes }: Assignment) => prefixes[target.id] !== undefined
    const isOwner = ownership.assignment !== undefined && ownsSome(ownership.assignment)
    let isLost = false
    let put: Assignment
    try {
      // A release stores versions, also of cells that have only just come.
      await beat()
      const end = await host.release(spans, {
        beforeStop: async () => {
          await prepare(target.id, going)
          ownership.handOver(going)
        },
      })
      put = await this.#put((newest) => {
        // Others have taken all that it had: what it got now, nobody would have until they look after it again.
        isLost = isOwner && !ownsSome(newest)
        if (isLost) return undefined
        const owners = ownersOf(newest)
        const moves = toSpans(going.filter((range) => owners[range] === self)).map(
          (span): Move => ({ ...span, node: target.id, prefix: target.prefix, end }),
        )
        return moves.length === 0 ? undefined : afterMoves(newest, moves)
      })
    } catch (error) {
      // No PUT is under way: whoever puts one goes on until it is known what became of it.
      ownership.keep(going)
      host.resume(spans)
      throw error
    } finally {
      this.#moving = 0
    }
    this.learn(put)
    if (!isLost) return { count: going.length, put }
    ownership.keep(going)
    host.resume(spans)
    return undefined
  }

  /**
   * Puts the assignment that follows the newest one, whatever that is by then: it is worked out anew after each other one.
   *
   * @param next undefined: there is nothing to change
   * @returns what holds now
   */
  async #put(next: (newest: Assignment) => Assignment | undefined): Promise<Assignment> {
    const { log, ownership } = this.#parts
    for (;;) {
      const newest = (await log.newest(ownership.number)) ?? ownership.assignment
      if (newest === undefined) throw new CellError('internal', 'There is no assignment.')
      const assignment = next(newest)
      if (assignment === undefined) return newest
      if (await log.put(assignment)) return assignment
    }
  }

  /** Of moves. */
  #inTurn<T>(run: () => Promise<T>): Promise<T> {
    const turn = this.#turn.then(run)
    this.#turn = turn.catch(() => {})
    return turn
  }
}
