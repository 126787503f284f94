/** What a group needs of the connection it commits to: see `Transactions`. */
export interface GroupTarget {
  readonly inTransaction: boolean
  /** Whether pieces of work can be in one transaction without noticing each other. */
  canShare(): boolean
  begin(): void
  commit(): void
  /** Leaves no transaction open, whatever state it was in. */
  rollback(): void
  savepoint<T>(work: () => T): T
  /** The same for work that leaves nothing behind when it fails. */
  unguarded<T>(work: () => T): T
  /** One piece of work in a transaction of its own. */
  run<T>(work: () => T): T
}

/** What became of a piece of work. */
export type Outcome = { ok: true; value: unknown } | { ok: false; error: unknown }

/** A piece of work that may share a transaction, and so an fsync, with others. */
export interface GroupWork {
  /** It leaves nothing behind when it fails, so that it needs no savepoint. */
  readonly isAtomic?: boolean
  /** May run a second time, when a neighbour ended the whole transaction; so it must do nothing but touch the cell. */
  run(): unknown
  /** Called once, when the outcome is final: what succeeded is committed. Must not throw. */
  settle(outcome: Outcome): void
}

/** Told of each transaction that a group takes. */
export interface GroupEvents {
  /**
   * Inside the transaction, right before its COMMIT, with the work that it holds and what came of it: the last moment to
   * make a note of the transaction in itself, or to throw what must undo it.
   */
  beforeCommit(works: readonly GroupWork[], outcomes: readonly Outcome[]): void
  /** Right after its COMMIT, before any of its work is settled. Must not throw. */
  committed(): void
  /** After each piece of work: whether those so far are to be committed before the next is run. */
  isFull(outcomes: readonly Outcome[]): boolean
}

/** Pieces of work in one group: bounds how long the event loop is held before the fsync. */
const GROUP_MAX = 512

/**
 * Group commit: work that arrives in one turn of the event loop shares a transaction, and so one fsync. Each piece that
 * needs one has a savepoint of its own, so that no request sees another's failure or rollback, and nothing is answered before the
 * COMMIT that holds it (invariant 8).
 */
export class GroupCommit {
  readonly #target: GroupTarget
  readonly #translate: (error: unknown) => unknown
  #queue: GroupWork[] = []
  #scheduled = false

  /** @param translate makes of an error what a caller is told; called when no transaction is open */
  constructor(target: GroupTarget, translate: (error: unknown) => unknown) {
    this.#target = target
    this.#translate = translate
  }

  get pending(): boolean {
    return this.#queue.length > 0
  }

  /** Joins the group that is committed at the end of this turn of the event loop. */
  add<T>(run: () => T): Promise<T> {
    return new Promise<T>((resolve, reject) => {
      this.#queue.push({
        run,
        settle: (outcome) => (outcome.ok ? resolve(outcome.value as T) : reject(outcome.error)),
      })
      this.#schedule()
    })
  }

  /** Commits what is queued, now. */
  flush(): void {
    while (this.#queue.length > 0) this.commit(this.#queue.splice(0, GROUP_MAX))
  }

  /** Commits a group that the caller has gathered, now. Never throws: whatever happens is some work's outcome. */
  commit(group: readonly GroupWork[], events?: GroupEvents): void {
    new Group(this.#target, this.#translate, events).commit(group)
  }

  #schedule(): void {
    if (this.#scheduled) return
    this.#scheduled = true
    setImmediate(() => {
      this.#scheduled = false
      if (this.#queue.length === 0) return
      this.commit(this.#queue.splice(0, GROUP_MAX))
      if (this.#queue.length > 0) this.#schedule()
    })
  }
}

/** One group on its way, in as few transactions as its neighbours allow. */
class Group {
  readonly #target: GroupTarget
  readonly #translate: (error: unknown) => unknown
  readonly #events: GroupEvents | undefined

  constructor(target: GroupTarget, translate: (error: unknown) => unknown, events: GroupEvents | undefined) {
    this.#target = target
    this.#translate = translate
    this.#events = events
  }

  commit(group: readonly GroupWork[]): void {
    let rest = group
    try {
      while (rest.length > 1) rest = this.#commitTogether(rest)
    } catch (error) {
      for (const work of rest) this.#settle(work, { ok: false, error })
      return
    }
    for (const work of rest) this.#settleAlone(work)
  }

  /**
   * @returns what is still to be done
   * @throws what makes all of the group fail; nothing of it is settled then
   */
  #commitTogether(group: readonly GroupWork[]): readonly GroupWork[] {
    const target = this.#target
    target.begin()
    if (!this.#canShare()) return this.#oneByOne(group)
    const outcomes: Outcome[] = []
    for (const work of group) {
      outcomes.push(this.#run(work))
      if (!target.inTransaction) return this.#withoutCulprit(group, outcomes.length - 1)
      if (this.#events?.isFull(outcomes)) break
    }
    const done = group.slice(0, outcomes.length)
    const rest = group.slice(outcomes.length)
    try {
      this.#events?.beforeCommit(done, outcomes)
      target.commit()
    } catch (error) {
      target.rollback()
      if (!isOneWorks(error)) throw error
      // Only COMMIT found out, and not whose it was: that shows when each commits alone.
      for (const work of done) this.#settleAlone(work)
      return rest
    }
    this.#events?.committed()
    for (const [i, work] of done.entries()) this.#settle(work, outcomes[i] as Outcome)
    return rest
  }

  /** Asked inside the transaction, where it costs no lock of its own. */
  #canShare(): boolean {
    try {
      return this.#target.canShare()
    } catch (error) {
      this.#target.rollback()
      throw error
    }
  }

  /** Each in a transaction of its own, in place of the one that was opened for all. */
  #oneByOne(group: readonly GroupWork[]): readonly GroupWork[] {
    this.#target.rollback()
    for (const work of group) this.#settleAlone(work)
    return []
  }

  /**
   * One piece of work ended the whole transaction, and those before it are undone with it. Its neighbours must not
   * notice: those before it are run again together, then it alone, and the rest goes on.
   */
  #withoutCulprit(group: readonly GroupWork[], at: number): readonly GroupWork[] {
    this.#target.rollback()
    this.commit(group.slice(0, at))
    this.#settleAlone(group[at] as GroupWork)
    return group.slice(at + 1)
  }

  #run(work: GroupWork): Outcome {
    const run = () => work.run()
    try {
      const value = work.isAtomic === true ? this.#target.unguarded(run) : this.#target.savepoint(run)
      return { ok: true, value }
    } catch (error) {
      return { ok: false, error }
    }
  }

  #settleAlone(work: GroupWork): void {
    let outcome: Outcome
    try {
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

/** A deferred foreign key that is broken; a full-text index that had no room for what it writes at the COMMIT. */
function isOneWorks(error: unknown): boolean {
  return error instanceof Error && 'code' in error && /^SQLITE_(CONSTRAINT|FULL)/.test(String(error.code))
}
