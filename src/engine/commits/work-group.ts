import { isError } from '../../base/any-realm.ts'

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

/** Work that has failed, by its number. Its outcome is unknown if it has ended the transaction: it runs again alone. */
interface FailedWork {
  at: number
  outcome?: Outcome
}

export interface WorkGroupParts {
  target: GroupTarget
  /** Turns an error into the one for callers; called when no transaction is open. */
  translate(error: unknown): unknown
  events?: GroupEvents | undefined
  /** Whether work that leaves something behind when it fails runs in a savepoint from the start, and not only once such work failed. */
  isGuarded: boolean
  /** Takes what work queues while it runs. */
  queue?: readonly GroupWork[] | undefined
  /** How work is settled, if not at once. */
  settle?: Settle | undefined
}

/**
 * Commits one group in as few transactions as possible. No piece of work notices that another fails: either each has a savepoint, or
 * all is rolled back and those that succeeded run again.
 */
export class WorkGroup {
  readonly #parts: WorkGroupParts
  #isGuarded: boolean
  /** Whether some work has failed. */
  #hasFailed = false

  constructor(parts: WorkGroupParts) {
    this.#parts = parts
    this.#isGuarded = parts.isGuarded
  }

  /** Whether there are savepoints: from the start, or since work failed without one. */
  get isGuarded(): boolean {
    return this.#isGuarded
  }

  commit(group: readonly GroupWork[]): void {
    let rest = group
    while (rest.length > 0 && (rest === group || !this.#isOver)) rest = this.#commitSome(rest)
  }

  get #isOver(): boolean {
    return this.#parts.events?.isOver?.() === true
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

  /** See `GroupCommit.prepare`. */
  prepare(group: readonly GroupWork[]): PreparedGroup | undefined {
    const target = this.#parts.target
    try {
      this.#begin()
      if (group.length === 1 || target.canShare()) {
        const { outcomes, failed } = this.#runUntilFull(group)
        // If nothing has succeeded, there is nothing to commit.
        if (failed === undefined && outcomes.some(({ ok }) => ok) && this.#couldShare(outcomes)) {
          this.#parts.events?.beforeCommit(group.slice(0, outcomes.length), outcomes)
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
    const { outcomes, failed } = this.#runUntilFull(group)
    if (failed !== undefined) return this.#without(group, failed)
    if (!this.#couldShare(outcomes)) return this.#oneByOne(group)
    const done = group.slice(0, outcomes.length)
    this.#end(done, outcomes, () => this.#parts.events?.beforeCommit(done, outcomes))
    return group.slice(outcomes.length)
  }

  /** Runs as many as one transaction takes, up to one that has failed so that those before it cannot be committed. */
  #runUntilFull(group: readonly GroupWork[]): { outcomes: Outcome[]; failed?: FailedWork } {
    const outcomes: Outcome[] = []
    const { queue = [] } = this.#parts
    const queued = queue.length
    for (const work of group) {
      // Work that has queued more should not run again: it would queue that again.
      const isGuarded = work.isAtomic !== true && (this.#isGuarded || queue.length > queued)
      const outcome = this.#run(work, isGuarded)
      const at = outcomes.length
      // Work that has succeeded has left the transaction open.
      if (!outcome.ok && !this.#parts.target.inTransaction) return { outcomes, failed: { at } }
      if (!outcome.ok && !isGuarded && work.isAtomic !== true) return { outcomes, failed: { at, outcome } }
      outcomes.push(outcome)
      if (this.#parts.events?.isFull(outcomes) || this.#isOver) break
    }
    return { outcomes }
  }

  /**
   * Some work has undone those before it, or has left something that only a rollback of them all undoes. They must not notice, so
   * they run again together, and the rest follows. With savepoints from now on, if it had none.
   *
   * @returns the work that is left
   */
  #without(group: readonly GroupWork[], { at, outcome }: FailedWork): readonly GroupWork[] {
    this.#parts.target.rollback()
    if (outcome !== undefined) this.#isGuarded = true
    const work = group[at] as GroupWork
    const succeedAgain = this.#commitAgain(group.slice(0, at))
    // If a COMMIT of those before it failed, what was in its way may be gone with them.
    if (outcome !== undefined && succeedAgain) this.#settle(work, outcome)
    else this.#settleAlone(work)
    return group.slice(at + 1)
  }

  /** These have run before: they are not left, even if it is over. @returns whether all succeed */
  #commitAgain(group: readonly GroupWork[]): boolean {
    const events = this.#parts.events && { ...this.#parts.events, isOver: undefined }
    const again = new WorkGroup({ ...this.#parts, events, isGuarded: this.#isGuarded })
    again.commit(group)
    return !again.#hasFailed
  }

  /** Commits and settles what has run. @throws an error that makes all of it fail; none of it is settled then */
  #end(done: readonly GroupWork[], outcomes: readonly Outcome[], beforeCommit: () => void): void {
    try {
      beforeCommit()
      this.#parts.target.commit()
    } catch (error) {
      this.#parts.target.rollback()
      if (!isOneWorks(error)) throw error
      // Only the COMMIT failed, and does not say whose fault it is: that shows when each commits alone.
      for (const work of done) this.#settleAlone(work)
      return
    }
    this.#parts.events?.committed()
    for (let i = 0; i < done.length; i++) this.#settle(done[i] as GroupWork, outcomes[i] as Outcome)
  }

  /** Asked inside the transaction, where it costs no extra lock. */
  #canShare(): boolean {
    return this.#asked(() => this.#parts.target.canShare())
  }

  #couldShare({ length }: readonly Outcome[]): boolean {
    return length === 1 || this.#asked(() => this.#parts.target.couldShare())
  }

  #asked(ask: () => boolean): boolean {
    try {
      return ask()
    } catch (error) {
      this.#parts.target.rollback()
      throw error
    }
  }

  /** Commits each in its own transaction, instead of the one that was opened for all. */
  #oneByOne(group: readonly GroupWork[]): readonly GroupWork[] {
    this.#parts.target.rollback()
    for (const [i, work] of group.entries()) {
      if (i > 0 && this.#isOver) return group.slice(i)
      this.#settleAlone(work)
    }
    return []
  }

  #begin(): void {
    this.#parts.events?.begins?.()
    this.#parts.target.begin()
  }

  #run(work: GroupWork, isGuarded: boolean): Outcome {
    const target = this.#parts.target
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
      this.#parts.events?.begins?.()
      outcome = this.#parts.target.run(() => {
        const done: Outcome = { ok: true, value: work.run() }
        this.#parts.events?.beforeCommit([work], [done])
        return done
      })
      this.#parts.events?.committed()
    } catch (error) {
      outcome = { ok: false, error }
    }
    this.#settle(work, outcome)
  }

  #settle(work: GroupWork, outcome: Outcome): void {
    const { translate, settle } = this.#parts
    if (!outcome.ok) this.#hasFailed = true
    const translated: Outcome = outcome.ok ? outcome : { ok: false, error: translate(outcome.error) }
    if (settle === undefined) work.settle(translated)
    else settle(work, translated)
  }
}

/** A broken deferred foreign key, or a full-text index that writes at the COMMIT, and had no room or is damaged. */
function isOneWorks(error: unknown): boolean {
  return (
    isError(error) && 'code' in error && /^SQLITE_(CONSTRAINT|FULL|CORRUPT_VTAB)/.test(String(error.code))
  )
}
