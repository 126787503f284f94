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
  /** One piece of work in a transaction of its own. */
  run<T>(work: () => T): T
}

interface Entry {
  work: () => unknown
  resolve: (value: unknown) => void
  reject: (error: unknown) => void
}

type Outcome = { ok: true; value: unknown } | { ok: false; error: unknown }

/** Pieces of work in one group: bounds how long the event loop is held before the fsync. */
const GROUP_MAX = 512

/**
 * Group commit: work that arrives in one turn of the event loop shares a transaction, and so one fsync. Each piece has a
 * savepoint of its own, so that no request sees another's failure or rollback, and nothing is answered before the
 * COMMIT that holds it (invariant 8).
 *
 * Work may be run a second time, when a neighbour ended the whole transaction or made its COMMIT fail; so it must do
 * nothing but touch the cell.
 */
export class GroupCommit {
  readonly #target: GroupTarget
  #queue: Entry[] = []
  #scheduled = false

  constructor(target: GroupTarget) {
    this.#target = target
  }

  get pending(): boolean {
    return this.#queue.length > 0
  }

  add<T>(work: () => T): Promise<T> {
    return new Promise<T>((resolve, reject) => {
      this.#queue.push({ work, resolve: resolve as (value: unknown) => void, reject })
      this.#schedule()
    })
  }

  /** Commits what is queued, now. */
  flush(): void {
    while (this.#queue.length > 0) this.#commitNext()
  }

  #schedule(): void {
    if (this.#scheduled) return
    this.#scheduled = true
    setImmediate(() => {
      this.#scheduled = false
      if (this.#queue.length === 0) return
      this.#commitNext()
      if (this.#queue.length > 0) this.#schedule()
    })
  }

  /** Never throws: whatever happens is some entry's answer. */
  #commitNext(): void {
    const group = this.#queue.splice(0, GROUP_MAX)
    try {
      this.#commit(group)
    } catch (error) {
      for (const entry of group) entry.reject(error)
    }
  }

  #commit(group: Entry[]): void {
    let rest = group
    while (rest.length > 1 && this.#target.canShare()) rest = this.#commitTogether(rest)
    for (const entry of rest) this.#settleAlone(entry)
  }

  /** @returns what is still to be done */
  #commitTogether(group: Entry[]): Entry[] {
    const target = this.#target
    target.begin()
    const outcomes: Outcome[] = []
    for (const { work } of group) {
      outcomes.push(this.#run(work))
      if (!target.inTransaction) return this.#withoutCulprit(group, outcomes.length - 1)
    }
    try {
      target.commit()
    } catch (error) {
      target.rollback()
      if (!isConstraint(error)) throw error
      // Somebody broke a deferred foreign key, and only COMMIT found out: who it was shows when each commits alone.
      for (const entry of group) this.#settleAlone(entry)
      return []
    }
    settle(group, outcomes)
    return []
  }

  /**
   * One piece of work ended the whole transaction, and those before it are undone with it. Its neighbours must not
   * notice: those before it are run again together, then it alone, and the rest goes on.
   */
  #withoutCulprit(group: Entry[], at: number): Entry[] {
    this.#target.rollback()
    this.#commit(group.slice(0, at))
    this.#settleAlone(group[at] as Entry)
    return group.slice(at + 1)
  }

  #run(work: () => unknown): Outcome {
    try {
      return { ok: true, value: this.#target.savepoint(work) }
    } catch (error) {
      return { ok: false, error }
    }
  }

  #settleAlone(entry: Entry): void {
    try {
      entry.resolve(this.#target.run(entry.work))
    } catch (error) {
      entry.reject(error)
    }
  }
}

function settle(group: Entry[], outcomes: Outcome[]): void {
  for (const [i, entry] of group.entries()) {
    const outcome = outcomes[i] as Outcome
    if (outcome.ok) entry.resolve(outcome.value)
    else entry.reject(outcome.error)
  }
}

function isConstraint(error: unknown): boolean {
  return error instanceof Error && 'code' in error && String(error.code).startsWith('SQLITE_CONSTRAINT')
}
