import type { PreparedGroup } from '../../engine/commits/work-group.ts'
import { SMALL_OPERATIONS } from '../../service/operations.ts'
import type { WorkerOutbox } from '../protocol/protocol.ts'
import { type Queued, Refused } from './parsed-batch.ts'

interface JointCommit {
  group: PreparedGroup
  /** Called after its COMMIT. */
  committed(): void
}

/**
 * Changes of several cells that have run and are not committed: their results leave the process together, and then come all
 * COMMITs. A write to the node for each cell would wake it as often.
 */
export class JointCommits {
  readonly #out: WorkerOutbox
  #waiting: JointCommit[] = []

  constructor(out: WorkerOutbox) {
    this.#out = out
  }

  /** Whether the operations of a cell may run while others wait for their COMMITs: longer ones would hold those up. */
  static allow(operations: readonly Queued[]): boolean {
    return operations.every(
      (each) => each instanceof Refused || (SMALL_OPERATIONS.has(each.op) && each.hold === undefined),
    )
  }

  add(commit: JointCommit): void {
    this.#waiting.push(commit)
  }

  /** @returns whether there were any: then the node knows that what follows is nobody's time */
  commit(): boolean {
    if (this.#waiting.length === 0) return false
    const waiting = this.#waiting
    this.#waiting = []
    this.#out.send({ type: 'overhead', index: undefined })
    for (const { group, committed } of waiting) {
      group.commit()
      committed()
    }
    return true
  }
}
