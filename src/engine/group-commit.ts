import { refusePromise } from './transaction-work.ts'

/** What a group needs of its connection: see `Transactions`. */
export interface GroupTarget {
  readonly inTransaction: boolean
  /** Whether several pieces of work may share a transaction unnoticed. */
  canShare(): boolean
  /** Whether what has run in the open transaction could share it; asked before its COMMIT. */
  couldShare(): boolean
  begin(): void
  commit(): void
  /** Leaves no transaction open, whatever state it was in. */
  rollback(): void
  /** @throws if the work has ended the transaction */
  savepoint<T>(work: () => T): T
  /** The same without a savepoint: what the work has changed before it fails stays, unless all is rolled back. */
  unguarded<T>(work: { run(): T }): T
  /** One piece of work in a transaction of its own. */
  run<T>(work: () => T): T
}

/** The result of a piece of work. */
export type Outcome = { ok: true; value: unknown } | { ok: false; error: unknown }

/** A piece of work that may share a transaction, and so an fsync, with others. */
export interface GroupWork {
  /** It leaves nothing behind when it fails, so that it needs no savepoint. */
  readonly isAtomic?: boolean
  /** May run several times if a neighbour fails; so it must do nothing but use the cell. */
  run(): unknown
  /** Called once, when the outcome is final: what succeeded is committed. Must not throw. */
  settle(outcome: Outcome): void
}

/** Settles a piece of work, now or once what it has changed is on disk. */
export type Settle = (work: GroupWork, outcome: Outcome) => void

/** Called for each transaction of a group. */
export interface GroupEvents {
  /** Right before its BEGIN. An error is that of all its work. */
  begins?: (() => void) | undefined
  /**
   * Inside the transaction, right before its COMMIT, with its work and the results: the last moment to write a marker into
   * the transaction, or to throw an error that undoes it.
   */
  beforeCommit(works: readonly GroupWork[], outcomes: readonly Outcome[]): void
  /** Right after its COMMIT, before any of its work is settled. Must not throw. */
  committed(): void
  /** After each piece of work: whether to commit those so far before the next one runs. */
  isFull(outcomes: readonly Outcome[]): boolean
  /** Whether the rest of the group is left as it is: not started, and not settled. The first piece of work runs anyway. */
  isOver?: (() => boolean) | undefined
}

/** A group whose work has run, in a transaction that is still open. */
export interface PreparedGroup {
  /** Commits and settles it. Never throws, as {@link GroupCommit.commit}. */
  commit(): void
}

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
  readonly #target: GroupTarget
  readonly #translate: (error: unknown) => unknown
  readonly #schedule: () => void
  readonly #queue: GroupWork[] = []
  #scheduled = false
  /** So many groups of the queue have savepoints. */
  #guarded = 0

  /**
   * @param translate turns an error into the one for callers; called when no transaction is open
   * @param schedule has {@link commitNext} called at the end of this turn of the event loop
   */
  constructor(target: GroupTarget, translate: (error: unknown) => unknown, schedule?: () => void) {
    this.#target = target
    this.#translate = translate
    this.#schedule = schedule ?? (() => void setImmediate(() => this.commitNext()))
  }

  get pending(): boolean {
    return this.#queue.length > 0
  }

  /** Joins the group that is committed at the end of this turn of the event loop. */
  add<T>(run: () => T): Promise<T> {
    return new Promise<T>((resolve, reject) => {
      this.#queue.push({
        run: () => refusePromise(run()),
        settle: (outcome) => (outcome.ok ? resolve(outcome.value as T) : reject(outcome.error)),
      })
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
    new Group(this.#target, this.#translate, events).commit(group)
  }

  /**
   * Runs a group that the caller has gathered, up to its COMMIT. Nothing else may use the connection until then.
   *
   * @returns undefined if it can't be committed as a whole: then nothing has happened, and it takes a {@link commit}
   */
  prepare(group: readonly GroupWork[], events: GroupEvents): PreparedGroup | undefined {
    return new Group(this.#target, this.#translate, events).prepare(group)
  }

  /** Commits the first of the queue; the rest follows in the next turn. */
  commitNext(settle?: Settle): void {
    this.#scheduled = false
    const group = this.#queue.splice(0, GROUP_MAX)
    if (group.length > 0)
      this.#commitQueued(settle === undefined ? group : group.map((work) => settledBy(work, settle)))
    if (this.#queue.length > 0) this.#scheduleOnce()
  }

  #commitQueued(works: readonly GroupWork[]): void {
    const isGuarded = this.#guarded > 0
    if (isGuarded) this.#guarded--
    const group = new Group(this.#target, this.#translate, undefined, isGuarded, this.#queue)
    group.commit(works)
    if (group.isGuarded && !isGuarded) this.#guarded = GUARDED_GROUPS
  }

  #scheduleOnce(): void {
    if (this.#scheduled) return
    this.#scheduled = true
    this.#schedule()
  }
}

function settledBy(work: GroupWork, settle: Settle): GroupWork {
  return { run: () => work.run(), settle: (outcome) => settle(work, outcome) }
}

/** Commits one group in as few transactions as possible. */
class Group {
  readonly #target: GroupTarget
  readonly #translate: (error: unknown) => unknown
  readonly #events: GroupEvents | undefined
  readonly #queue: readonly GroupWork[]
  #isGuarded: boolean

  /** @param queue takes what work queues while it runs */
  constructor(
    target: GroupTarget,
    translate: (error: unknown) => unknown,
    events: GroupEvents | undefined,
    isGuarded = true,
    queue: readonly GroupWork[] = [],
  ) {
    this.#target = target
    this.#translate = translate
    this.#events = events
    this.#queue = queue
    this.#isGuarded = isGuarded
  }

  /** Work that leaves something behind when it fails runs in a savepoint: from the start, or since such work failed. */
  get isGuarded(): boolean {
    return this.#isGuarded
  }

  commit(group: readonly GroupWork[]): void {
    let rest = group
    while (rest.length > 0 && (rest === group || !this.#isOver)) rest = this.#commitSome(rest)
  }

  get #isOver(): boolean {
    return this.#events?.isOver?.() === true
  }

  /** @returns the work that is left */
  #commitSome(group: readonly GroupWork[]): readonly GroupWork[] {
    try {
      if (group.length > 1) return this.#commitTogether(group)
    } catch (error) {
      for (const work of group) this.#settle(work, { ok: false, error })
      return []
    }
    for (const work of group) this.#settleAlone(work)
    return []
  }

  /** See {@link GroupCommit.prepare}. */
  prepare(group: readonly GroupWork[]): PreparedGroup | undefined {
    const target = this.#target
    try {
      this.#begin()
      if (group.length === 1 || target.canShare()) {
        const { outcomes, culprit } = this.#runUntilFull(group)
        // If nothing has succeeded, there is nothing to commit.
        if (culprit === undefined && outcomes.some(({ ok }) => ok) && this.#couldShare(outcomes)) {
          this.#events?.beforeCommit(group.slice(0, outcomes.length), outcomes)
          return { commit: () => this.#commitPrepared(group, outcomes) }
        }
      }
    } catch {
      // It fails once more where that can be told.
    }
    target.rollback()
    return undefined
  }

  #commitPrepared(group: readonly GroupWork[], outcomes: readonly Outcome[]): void {
    const done = group.slice(0, outcomes.length)
    try {
      this.#end(done, outcomes, () => {})
    } catch (error) {
      for (const work of done) this.#settle(work, { ok: false, error })
    }
    const rest = group.slice(outcomes.length)
    if (!this.#isOver) this.commit(rest)
  }

  /**
   * @returns the work that is left
   * @throws an error that makes all of the group fail; none of it is settled then
   */
  #commitTogether(group: readonly GroupWork[]): readonly GroupWork[] {
    this.#begin()
    if (!this.#canShare()) return this.#oneByOne(group)
    const { outcomes, culprit, isSpoilt } = this.#runUntilFull(group)
    if (culprit !== undefined) return this.#withoutCulprit(group, culprit)
    if (isSpoilt) return this.#withoutFailed(group, outcomes)
    if (!this.#couldShare(outcomes)) return this.#oneByOne(group)
    const done = group.slice(0, outcomes.length)
    this.#end(done, outcomes, () => this.#events?.beforeCommit(done, outcomes))
    return group.slice(outcomes.length)
  }

  /**
   * Runs as many as one transaction takes. A culprit is the one, by its number, that has ended the transaction. It is spoilt if one
   * has failed without a savepoint, and may have left something behind.
   */
  #runUntilFull(group: readonly GroupWork[]): { outcomes: Outcome[]; culprit?: number; isSpoilt?: boolean } {
    const outcomes: Outcome[] = []
    const queued = this.#queue.length
    for (const work of group) {
      // Work that has queued more should not run again: it would queue that again.
      const isGuarded = work.isAtomic !== true && (this.#isGuarded || this.#queue.length > queued)
      const outcome = this.#run(work, isGuarded)
      // Work that has succeeded has left the transaction open.
      if (!outcome.ok && !this.#target.inTransaction) return { outcomes, culprit: outcomes.length }
      outcomes.push(outcome)
      if (!outcome.ok && !isGuarded && work.isAtomic !== true) return { outcomes, isSpoilt: true }
      if (this.#events?.isFull(outcomes) || this.#isOver) break
    }
    return { outcomes }
  }

  /**
   * The last one has failed without a savepoint. What it has changed goes with the whole transaction: those before it run again, and
   * the rest follows. That it failed is its outcome, unless one before it does not succeed again: its COMMIT may have failed, and
   * what it left in the way with it. From now on there are savepoints.
   */
  #withoutFailed(group: readonly GroupWork[], outcomes: readonly Outcome[]): readonly GroupWork[] {
    this.#target.rollback()
    this.#isGuarded = true
    const at = outcomes.length - 1
    const failed = group[at] as GroupWork
    let succeedAgain = true
    const observed = group.slice(0, at).map((work) =>
      settledBy(work, (_, outcome) => {
        if (!outcome.ok) succeedAgain = false
        work.settle(outcome)
      }),
    )
    this.#commitAgain(observed)
    if (succeedAgain) this.#settle(failed, outcomes[at] as Outcome)
    else this.#settleAlone(failed)
    return group.slice(at + 1)
  }

  /** These have run before: they are not left, even if it is over. */
  #commitAgain(group: readonly GroupWork[]): void {
    const events = this.#events && { ...this.#events, isOver: undefined }
    new Group(this.#target, this.#translate, events, this.#isGuarded, this.#queue).commit(group)
  }

  /** Commits and settles what has run. @throws an error that makes all of it fail; none of it is settled then */
  #end(done: readonly GroupWork[], outcomes: readonly Outcome[], beforeCommit: () => void): void {
    try {
      beforeCommit()
      this.#target.commit()
    } catch (error) {
      this.#target.rollback()
      if (!isOneWorks(error)) throw error
      // Only the COMMIT failed, and does not say whose fault it is: that shows when each commits alone.
      for (const work of done) this.#settleAlone(work)
      return
    }
    this.#events?.committed()
    for (const [i, work] of done.entries()) this.#settle(work, outcomes[i] as Outcome)
  }

  /** Asked inside the transaction, where it costs no extra lock. */
  #canShare(): boolean {
    return this.#asked(() => this.#target.canShare())
  }

  #couldShare({ length }: readonly Outcome[]): boolean {
    return length === 1 || this.#asked(() => this.#target.couldShare())
  }

  #asked(ask: () => boolean): boolean {
    try {
      return ask()
    } catch (error) {
      this.#target.rollback()
      throw error
    }
  }

  /** Commits each in its own transaction, instead of the one that was opened for all. */
  #oneByOne(group: readonly GroupWork[]): readonly GroupWork[] {
    this.#target.rollback()
    for (const [i, work] of group.entries()) {
      if (i > 0 && this.#isOver) return group.slice(i)
      this.#settleAlone(work)
    }
    return []
  }

  /**
   * One piece of work ended the whole transaction, and undid those before it. Its neighbours must not notice: those before
   * it run again together, then it runs alone, and the rest follows.
   */
  #withoutCulprit(group: readonly GroupWork[], at: number): readonly GroupWork[] {
    this.#target.rollback()
    this.#commitAgain(group.slice(0, at))
    this.#settleAlone(group[at] as GroupWork)
    return group.slice(at + 1)
  }

  #begin(): void {
    this.#events?.begins?.()
    this.#target.begin()
  }

  #run(work: GroupWork, isGuarded: boolean): Outcome {
    const target = this.#target
    try {
      const value = isGuarded ? target.savepoint(() => work.run()) : target.unguarded(work)
      return { ok: true, value }
    } catch (error) {
      return { ok: false, error }
    }
  }

  #settleAlone(work: GroupWork): void {
    let outcome: Outcome
    try {
      this.#events?.begins?.()
      outcome = this.#target.run(() => {
        const done: Outcome = { ok: true, value: work.run() }
        this.#events?.beforeCommit([work], [done])
        return done
      })
      this.#events?.committed()
    } catch (error) {
      outcome = { ok: false, error }
    }
    this.#settle(work, outcome)
  }

  #settle(work: GroupWork, outcome: Outcome): void {
    work.settle(outcome.ok ? outcome : { ok: false, error: this.#translate(outcome.error) })
  }
}

/** A broken deferred foreign key, or a full-text index that had no room for its writes at the COMMIT. */
function isOneWorks(error: unknown): boolean {
  return error instanceof Error && 'code' in error && /^SQLITE_(CONSTRAINT|FULL)/.test(String(error.code))
}
