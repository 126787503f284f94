import type { Outcome } from '../../../engine/commits/work-group.ts'
import type { WalEnd } from '../../../engine/wal/wal-end.ts'
import type { CellError } from '../../../errors.ts'
import { unpackOutcome } from '../../protocol/packed.ts'
import type { BatchMessage } from '../processes/worker-process.ts'
import { isStatement, type QueuedOperation } from './queued-operation.ts'
import type { RunningStatement } from './running-work.ts'

type Results = Extract<BatchMessage, { type: 'results' }>

/** Provisional results: they count only if their transaction was committed. */
export interface ProvisionalResults {
  cellId: string
  /** Where the WAL ended when the transaction began; undefined if its COMMIT is known to have succeeded. */
  before: WalEnd | undefined
  outcomes: [operation: QueuedOperation, outcome: Outcome][]
  /** The COMMIT was over its deadline: if it was not made, this answers its statements. Otherwise they run again. */
  refusal?: CellError | undefined
}

/** What the operations of a cell have taken in a batch. */
export interface CellTime {
  cellId: string
  accountId: string
  operations: number
  /** Of the processor; 0 if it was too little to count. */
  ms: number
}

export interface FinishedBatch {
  /** Operations that have not started, because the batch had no time for them. */
  returned: QueuedOperation[]
  /** Others, which wait for the end of a hold. */
  held: QueuedOperation[]
  /** The cells of which operations ran. */
  ran: CellTime[]
}

/**
 * A batch that a worker is running. The worker's messages settle the operations one by one. `t` is a transaction:
 *
 *     committing: its own. If the worker ends, it is as one that is provisional; once it is over and the operation goes on, it never runs again
 *      ▲ │
 *      │ ▼          results without a transaction
 *     sent ─────────────────────────────────────────▶ settled
 *      │ ▲                                               ▲
 *      │ │ t rolled back; the next try                   │
 *      │ │ does not have the operation                   │
 *      ▼ │                                               │
 *     provisional(t) ── committed(t), or results ────────┘
 *                       without a transaction
 *
 * When the batch is done, operations that have not started are `returned`: the worker said nothing of them before.
 * If the next try has the operation, it becomes provisional in that transaction. A caller that gives up settles its
 * operation in any state. When the worker ends early, nothing of the `sent` operations is committed, and they run again
 * (`notRun`). For provisional ones, the cell's WAL tells whether `t` was committed.
 */
export class Batch {
  readonly #operations: readonly QueuedOperation[]
  readonly #cells: readonly (readonly QueuedOperation[])[]
  #finished: FinishedBatch | undefined
  #statement: RunningStatement | undefined
  /** By the number of the transaction. */
  readonly #provisional = new Map<number, ProvisionalResults>()
  /** The first transaction of an operation that commits by itself, from its COMMIT on. */
  #own: ProvisionalResults | undefined
  /** Monotonic time of the worker's last message. */
  heardAt: number

  constructor(cells: readonly (readonly QueuedOperation[])[], now: number) {
    this.#cells = cells
    this.#operations = cells.flat()
    this.heardAt = now
  }

  get statement(): RunningStatement | undefined {
    return this.#statement
  }

  /** Set once the batch is done. */
  get finished(): FinishedBatch | undefined {
    return this.#finished
  }

  /** @param parts of the message: see messages.ts */
  take(message: BatchMessage, now: number, parts: readonly Buffer[] = []): void {
    this.heardAt = now
    this.#statement = undefined
    switch (message.type) {
      case 'started':
        this.#bound(message)
        this.#statement = { kind: 'statement', operation: this.#at(message.index), since: now }
        break
      case 'results':
        this.#takeResults(message, parts, now)
        break
      case 'unsynced': {
        const provisional = this.#provisional.get(message.transaction)
        if (provisional !== undefined) provisional.before = undefined
        break
      }
      case 'committing':
        this.#commits(this.#at(message.index), message.before)
        this.#statement = { kind: 'commit', operation: this.#at(message.index), since: now }
        break
      case 'committed':
        this.#committed(message.transaction)
        break
      case 'overhead':
        if (message.index !== undefined)
          this.#statement = { kind: 'overhead', operation: this.#at(message.index), since: now }
        break
      case 'done':
        this.#finish(message)
    }
  }

  /** Work on another cell has come in between: its time must not count for the operation. */
  resume(): void {
    if (this.#statement !== undefined && this.#statement.kind !== 'statement')
      this.#statement.countedFrom = undefined
  }

  /** An operation by its number. */
  operation(index: number): QueuedOperation {
    return this.#at(index)
  }

  /** Whether it has operations on a cell. */
  has(cellId: string): boolean {
    return this.#cells.some(([first]) => first?.cellId === cellId)
  }

  /** Whether such an operation waits for its answer. */
  waits(isSuch: (operation: QueuedOperation) => boolean): boolean {
    return this.#operations.some((each) => !each.isSettled && isSuch(each))
  }

  /** After the worker ended: what may have been committed, and what must run again, unless a part of it was committed. */
  lost(): { provisional: ProvisionalResults[]; notRun: QueuedOperation[] } {
    const [[own] = []] = this.#own?.outcomes ?? []
    for (const operation of this.#operations) {
      if (operation.ownCommit !== 'under way') continue
      // If nothing of it was committed, it runs again.
      if (operation === own) operation.ownCommit = undefined
      else operation.settle({ ok: false, error: unknownOutcome() })
    }
    const isOpen = ({ outcomes }: ProvisionalResults) => outcomes.some(([{ isSettled }]) => !isSettled)
    const all = [...this.#provisional.values(), ...(this.#own === undefined ? [] : [this.#own])]
    const provisional = all.filter(isOpen)
    const unknown = new Set(provisional.flatMap(({ outcomes }) => outcomes.map(([operation]) => operation)))
    const notRun = this.#operations.filter((each) => !each.isSettled && !unknown.has(each))
    return { provisional, notRun }
  }

  #finish({ returned = [], held = [], spent = [] }: Extract<BatchMessage, { type: 'done' }>): void {
    const notStarted = new Set(returned.map((index) => this.#at(index)))
    const spentMs = new Map(spent)
    const ran = this.#cells.flatMap((operations, i): CellTime[] => {
      const started = returned.length === 0 ? operations : operations.filter((each) => !notStarted.has(each))
      const [first] = started
      if (first === undefined) return []
      const { cellId, accountId } = first
      const ms = spentMs.get(i) ?? 0
      return [{ cellId, accountId, ms, operations: started.length }]
    })
    const heldBack = held.map((index) => this.#at(index))
    for (const each of heldBack) notStarted.delete(each)
    this.#finished = { returned: [...notStarted], held: heldBack, ran }
  }

  #takeResults(
    { outcomes, transaction, hasCommitted }: Results,
    parts: readonly Buffer[],
    now: number,
  ): void {
    const decoded = outcomes.map((outcome): [QueuedOperation, Outcome] => {
      const queued = this.#at(outcome[0])
      return [queued, unpackOutcome(outcome, queued.operation.op === 'request', parts)]
    })
    if (transaction === undefined)
      for (const [operation, outcome] of decoded) operation.settle(outcome, hasCommitted)
    else {
      const last = decoded.findLast(([operation]) => isStatement(operation)) ?? decoded.at(-1)
      if (last === undefined) return
      const [operation] = last
      const { number, before } = transaction
      this.#expect(number, { cellId: operation.cellId, before, outcomes: decoded })
      this.#statement = { kind: 'commit', operation, since: now }
    }
  }

  /**
   * A cell's transactions run one after the other. If the same operation comes in a second one, the first was rolled
   * back.
   */
  #expect(number: number, provisional: ProvisionalResults): void {
    const again = new Set(provisional.outcomes.map(([operation]) => operation))
    for (const [earlier, { outcomes }] of this.#provisional) {
      if (outcomes.some(([operation]) => again.has(operation))) this.#provisional.delete(earlier)
    }
    this.#provisional.set(number, provisional)
  }

  #commits(operation: QueuedOperation, before: WalEnd | undefined): void {
    const isFirst = operation.ownCommit === undefined && before !== undefined
    const { cellId } = operation
    this.#own = isFirst ? { cellId, before, outcomes: [[operation, committedBy(operation)]] } : undefined
    operation.ownCommit = 'under way'
  }

  #committed(transaction: number): void {
    for (const [operation, outcome] of this.#provisional.get(transaction)?.outcomes ?? []) {
      operation.settle(outcome, true)
    }
    this.#provisional.delete(transaction)
  }

  #bound({ index, statementMs }: Extract<BatchMessage, { type: 'started' }>): void {
    const operation = this.#at(index)
    if (operation.ownCommit !== undefined) operation.ownCommit = 'over'
    this.#own = undefined
    if (statementMs !== undefined) operation.statementMs = Math.min(statementMs, operation.statementMs)
  }

  #at(index: number): QueuedOperation {
    return this.#operations[index] as QueuedOperation
  }
}

/** What an operation results in whose COMMIT was made, and whose worker has ended in it: of a request the other results are lost. */
function committedBy({ operation }: QueuedOperation): Outcome {
  if (operation.op === 'hold') return { ok: true, value: undefined }
  const error = new Error(
    'A worker ended in a COMMIT. The transaction was committed, and the results are lost.',
  )
  return { ok: false, error }
}

/** Must not be a code that invites a retry: the operation could run twice. */
export function unknownOutcome(cause?: Error): Error {
  return new Error('A worker ended during a COMMIT. Whether the transaction was committed is unknown.', {
    cause,
  })
}
