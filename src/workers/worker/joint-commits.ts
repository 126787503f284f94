import type { PreparedGroup } from '../../engine/commits/work-group.ts'
import type { ParsedOperation } from '../../service/apply-operation.ts'
import type { WorkerOutbox } from '../protocol/protocol.ts'
import { type Queued, Refused } from './parsed-batch.ts'

/** Changes that take no longer than the data they touch, and tell little: others would hold up the COMMITs of their neighbours. */
const JOINT: ReadonlySet<string> = new Set<ParsedOperation['op']>([
  'kv.put',
  'kv.delete',
  'kv.incr',
  'kv.expire',
  'kv.get',
  'kv.ttl',
])

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

  /** Whether the operations of a cell may run while others wait for their COMMITs. */
  static allow(operations: readonly Queued[]): boolean {
    return operations.every(
      (each) => each instanceof Refused || (JOINT.has(each.op) && each.hold === undefined),
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
    this.#out.send({ type: 'upkeep', index: undefined })
    for (const { group, committed } of waiting) {
      group.commit()
      committed()
    }
    return true
  }
}
