import { setImmediate } from '../../base/clock.ts'
import { refuseLate } from './transaction-work.ts'
import {
  type GroupEvents,
  type GroupTarget,
  type GroupWork,
  type Outcome,
  type PreparedGroup,
  type Settle,
  WorkGroup,
  type WorkGroupParts,
} from './work-group.ts'

/** Pieces of work in one group: bounds how long the event loop is blocked before the fsync. */
const GROUP_MAX = 512
/** Groups of the queue that have savepoints after one in which work failed: a cell whose work often fails seldom runs it twice. */
const GUARDED_GROUPS = 64

/**
 * Group commit: work that arrives in one turn of the event loop shares a transaction, and so one fsync. No request sees
 * another's failure or rollback, and nothing is answered before its COMMIT (invariant 8). A savepoint for each piece that needs
 * it sees to that. The queue does without, as most work never fails, and savepoints took a third of a put's time: if a piece
 * fails, all is rolled back, and those before it run again.
 */
export class GroupCommit {
  readonly #parts: Pick<WorkGroupParts, 'target' | 'translate'>
  readonly #isHeld: () => boolean
  readonly #schedule: () => void
  readonly #queue: GroupWork[] = []
  #scheduled = false
  /** So many groups of the queue have savepoints. */
  #guarded = 0

  /**
   * @param translate turns an error into the one for callers; called when no transaction is open
   * @param isHeld whether the queue waits for the end of a hold; {@link resume} follows
   * @param schedule has {@link commitNext} called at the end of this turn of the event loop
   */
  constructor(
    target: GroupTarget,
    translate: (error: unknown) => unknown,
    isHeld: () => boolean,
    schedule?: () => void,
  ) {
    this.#parts = { target, translate }
    this.#isHeld = isHeld
    this.#schedule = schedule ?? (() => void setImmediate(() => this.commitNext()))
  }

  get pending(): boolean {
    return this.#queue.length > 0
  }

  /** Joins the group that is committed at the end of this turn of the event loop. */
  add<T>(run: () => T): Promise<T> {
    return new Promise<T>((resolve, reject) => {
      this.#queue.push(new QueuedWork(run, resolve as (value: unknown) => void, reject))
      this.#scheduleOnce()
    })
  }

  /** Commits the queue immediately. */
  flush(): void {
    while (this.#queue.length > 0) this.#commitQueued(this.#queue.splice(0, GROUP_MAX))
  }

  /**
   * Commits a group that the caller has gathered: all of it, unless `events` say that it is over. Never throws, since every
   * error is the outcome of some work.
   */
  commit(group: readonly GroupWork[], events?: GroupEvents): void {
    new WorkGroup({ ...this.#parts, events, isGuarded: true }).commit(group)
  }

  /**
   * Runs a group that the caller has gathered, up to its COMMIT. Nothing else may use the connection until then.
   *
   * @returns undefined if it can't be committed as a whole: then nothing has happened, and it takes a {@link commit}
   */
  prepare(group: readonly GroupWork[], events: GroupEvents): PreparedGroup | undefined {
    return new WorkGroup({ ...this.#parts, events, isGuarded: true }).prepare(group)
  }

  /** The hold for which the queue waited is over. */
  resume(): void {
    if (this.#queue.length > 0) this.#scheduleOnce()
  }

  /** Commits the first of the queue; the rest follows in the next turn. */
  commitNext(settle?: Settle): void {
    this.#scheduled = false
    if (this.#isHeld()) return
    const group = this.#queue.splice(0, GROUP_MAX)
    if (group.length > 0) this.#commitQueued(group, settle)
    if (this.#queue.length > 0) this.#scheduleOnce()
  }

  #commitQueued(works: readonly GroupWork[], settle?: Settle): void {
    const isGuarded = this.#guarded > 0
    if (isGuarded) this.#guarded--
    const group = new WorkGroup({ ...this.#parts, isGuarded, queue: this.#queue, settle })
    group.commit(works)
    if (group.isGuarded && !isGuarded) this.#guarded = GUARDED_GROUPS
  }

  #scheduleOnce(): void {
    if (this.#scheduled) return
    this.#scheduled = true
    this.#schedule()
  }
}

/** A class, because closures of each piece of work would be made and collected with it. */
class QueuedWork implements GroupWork {
  readonly #run: () => unknown
  readonly #resolve: (value: unknown) => void
  readonly #reject: (error: unknown) => void

  constructor(run: () => unknown, resolve: (value: unknown) => void, reject: (error: unknown) => void) {
    this.#run = run
    this.#resolve = resolve
    this.#reject = reject
  }

  run(): unknown {
    return refuseLate(this.#run())
  }

  settle(outcome: Outcome): void {
    if (outcome.ok) this.#resolve(outcome.value)
    else this.#reject(outcome.error)
  }
}
