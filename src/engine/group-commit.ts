/** What a group needs of the database it commits to. */
export interface GroupTarget {
  exec(sql: 'BEGIN IMMEDIATE' | 'COMMIT' | 'SAVEPOINT work' | 'RELEASE work' | 'ROLLBACK TO work'): void
  inTransaction(): boolean
  /** Leaves no transaction open, whatever state it was in. */
  rollback(): void
  /** One piece of work in a transaction of its own. */
  alone(work: () => unknown): unknown
  /** Called after each successful COMMIT. */
  committed(): void
}

interface Entry {
  work: () => unknown
  resolve: (value: unknown) => void
  reject: (error: unknown) => void
}

type Outcome = { ok: true; value: unknown } | { ok: false; error: unknown }

/** Work in one group: bounds how long the event loop is held before the fsync. */
const GROUP_MAX = 512

/**
 * Group commit: work that arrives in one turn of the event loop shares a transaction, and so one fsync. Each piece has a
 * savepoint of its own, so that no request sees another's failure or rollback, and nothing is answered before the
 * COMMIT that holds it (invariant 8).
 *
 * Work may be run a second time, when a neighbour's statement ended the whole transaction; so it must do nothing but
 * touch the cell.
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

  /** Rejects what has not begun: the cell is closing. */
  abandon(error: unknown): void {
    for (const entry of this.#queue.splice(0)) entry.reject(error)
  }

  /** Commits what is queued, now. */
  flush(): void {
    while (this.#queue.length > 0) this.#commit(this.#queue.splice(0, GROUP_MAX))
  }

  #schedule(): void {
    if (this.#scheduled) return
    this.#scheduled = true
    setImmediate(() => {
      this.#scheduled = false
      if (this.#queue.length === 0) return
      this.#commit(this.#queue.splice(0, GROUP_MAX))
      if (this.#queue.length > 0) this.#schedule()
    })
  }

  #commit(group: Entry[]): void {
    if (group.length === 1) {
      for (const entry of group) this.#settleAlone(entry)
      return
    }
    let outcomes: Outcome[] | undefined
    try {
      outcomes = this.#runTogether(group)
    } catch (error) {
      this.#target.rollback()
      for (const entry of group) entry.reject(error)
      return
    }
    // A statement ended the whole transaction: its neighbours must not notice, so each gets one of its own.
    if (outcomes === undefined) for (const entry of group) this.#settleAlone(entry)
    else settle(group, outcomes)
  }

  /** @returns undefined if a piece of work ended the transaction; nothing of the group remains then. */
  #runTogether(group: Entry[]): Outcome[] | undefined {
    const target = this.#target
    target.exec('BEGIN IMMEDIATE')
    const outcomes: Outcome[] = []
    for (const { work } of group) {
      const outcome = this.#runInSavepoint(work)
      if (!target.inTransaction()) {
        target.rollback()
        return undefined
      }
      outcomes.push(outcome)
    }
    target.exec('COMMIT')
    target.committed()
    return outcomes
  }

  #runInSavepoint(work: () => unknown): Outcome {
    const target = this.#target
    target.exec('SAVEPOINT work')
    try {
      const value = work()
      if (target.inTransaction()) target.exec('RELEASE work')
      return { ok: true, value }
    } catch (error) {
      if (target.inTransaction()) {
        target.exec('ROLLBACK TO work')
        target.exec('RELEASE work')
      }
      return { ok: false, error }
    }
  }

  #settleAlone(entry: Entry): void {
    try {
      entry.resolve(this.#target.alone(entry.work))
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
