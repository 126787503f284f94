import type { CellRecord } from '../../../catalog/cell-registry.ts'
import { CellError } from '../../../errors.ts'
import { WorkerEnded, type WorkerHandle } from '../processes/worker-process.ts'
import { type ProvisionalResults, unknownOutcome } from './batch.ts'
import { isStatement, type QueuedOperation } from './queued-operation.ts'

export interface UnresolvedContext {
  record(cellId: string): CellRecord | undefined
  /** Runs operations again, each in its cell's present slot. */
  requeue(operations: readonly QueuedOperation[]): void
}

/** Transactions whose worker ended during the COMMIT, and of which no worker has said yet whether they were committed. */
export class UnresolvedTransactions {
  readonly #context: UnresolvedContext
  readonly #open = new Set<ProvisionalResults>()

  constructor(context: UnresolvedContext) {
    this.#context = context
  }

  get size(): number {
    return this.#open.size
  }

  /** @param worker asked at once, if there is one */
  add(provisional: ProvisionalResults, worker: WorkerHandle | undefined): void {
    this.#open.add(provisional)
    if (worker !== undefined) this.#ask(worker, provisional)
  }

  askAll(worker: WorkerHandle): void {
    for (const provisional of this.#open) this.#ask(worker, provisional)
  }

  /** Removes and returns those of a cell. */
  takeCell(cellId: string): ProvisionalResults[] {
    const own = [...this.#open].filter((each) => each.cellId === cellId)
    for (const each of own) this.#open.delete(each)
    return own
  }

  /** Answers operations that have waited too long. A transaction that nobody waits for is not asked for again. */
  expire(now: number): void {
    for (const provisional of this.#open) {
      const { outcomes } = provisional
      for (const [operation] of outcomes)
        if (operation.notAfter <= now) operation.settle({ ok: false, error: unknownOutcome() })
      if (outcomes.every(([{ isSettled }]) => isSettled)) this.#open.delete(provisional)
    }
  }

  /** No worker will be asked any more. */
  giveUp(): void {
    for (const provisional of this.#open) answerAll(provisional, unknownOutcome())
  }

  #ask(worker: WorkerHandle, provisional: ProvisionalResults): void {
    const { cellId, before, outcomes, refusal } = provisional
    worker.runTask({ task: 'was-committed', cellId, before }, this.#context.record(cellId)).then(
      (wasCommitted) => {
        // Another slot has the cell now, and asks for itself.
        if (!this.#open.delete(provisional)) return
        if (wasCommitted) for (const [operation, outcome] of outcomes) operation.settle(outcome, true)
        else if (wasCommitted === null) answerAll(provisional, unknownOutcome())
        else
          this.#runAgain(
            outcomes.map(([operation]) => operation),
            refusal,
          )
      },
      (error) => {
        if (error instanceof WorkerEnded || !this.#open.delete(provisional)) return
        const invitesRetry = error instanceof CellError && error.kind === 'retry'
        answerAll(provisional, invitesRetry ? unknownOutcome(error) : error)
      },
    )
  }

  #runAgain(operations: readonly QueuedOperation[], refusal: CellError | undefined): void {
    const again = operations.filter((each) => refusal === undefined || !isStatement(each))
    this.#context.requeue(again)
    for (const each of operations) if (!again.includes(each)) each.settle({ ok: false, error: refusal })
  }
}

function answerAll({ outcomes }: ProvisionalResults, error: unknown): void {
  for (const [operation] of outcomes) operation.settle({ ok: false, error })
}
