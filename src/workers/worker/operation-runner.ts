import { sqlShape } from '../../engine/sql-policy/sql-shape.ts'
import {
  type ApplyContext,
  applyOperation,
  type ParsedOperation,
  RUNS_SQL,
} from '../../service/apply-operation.ts'
import type { CellSession } from '../../service/holds/cell-session.ts'
import type { ReadBounds } from '../../service/requests/cell-routes.ts'
import type { Cell } from '../../store/open/cell.ts'
import type { WorkerOutbox } from '../protocol/protocol.ts'
import { isUnread, type Queued, type Runnable, readNow } from './parsed-batch.ts'

/** An operation that starts this many milliseconds after the last message is announced, whatever it is. */
const ANNOUNCE_MS = 5

/** The part of a slice in which further bodies are read, so that there is time left to run what was read. */
const READING_SHARE = 0.5

export interface RunnerSettings {
  /** What bounds requests. */
  bounds: ReadBounds
  /** Milliseconds after which a batch starts no further operation. */
  sliceMs: number
  /** Milliseconds from which on a statement is slow; undefined: none is. */
  slowMs?: number | undefined
}

/** Runs the operations of a batch, one by one, and tells the node whose time it is that passes. */
export class OperationRunner {
  readonly #context: ApplyContext
  readonly #out: WorkerOutbox
  readonly #bounds: ReadBounds
  readonly #sliceMs: number
  /** Monotonic time of the running batch's start: until its first message, the node counts nobody's time. */
  #startedAt = 0
  /** The node was told that a statement is running. */
  #isAnnounced = false
  /** The number of the operation that is applied now. */
  #applied = 0

  constructor(context: ApplyContext, { bounds, sliceMs, slowMs }: RunnerSettings, out: WorkerOutbox) {
    const tell = (sql: string, ms: number) =>
      out.post({ type: 'slow', index: this.#applied, statement: sqlShape(sql), ms })
    this.#context = slowMs === undefined ? context : { ...context, slow: { fromMs: slowMs, tell } }
    this.#bounds = bounds
    this.#sliceMs = sliceMs
    this.#out = out
  }

  /** A batch begins. */
  begin(): void {
    this.#startedAt = this.#context.clock.monotonic()
  }

  /** Other accounts wait for the worker: what has not started goes back to the node. */
  isOver(share = 1): boolean {
    return this.#context.clock.monotonic() - this.#startedAt > share * this.#sliceMs
  }

  /** @returns undefined if it is left for a later batch: what is read and not run is read once more */
  read(operation: Queued, index: number): Runnable | undefined {
    if (!isUnread(operation)) return operation
    if (index > 0 && this.isOver(READING_SHARE)) return undefined
    this.#out.send({ type: 'overhead', index })
    this.#isAnnounced = true
    return readNow(operation, this.#bounds)
  }

  /** What comes before the operation's own work must not count for the statement that the node heard of last. */
  endStatement(index: number): void {
    if (this.#isAnnounced) this.#out.send({ type: 'overhead', index })
  }

  /** @param session of an operation that needs one */
  apply(cell: Cell, operation: ParsedOperation, index: number, session?: CellSession): unknown {
    // Only these can take long: the others are bounded by the data they touch, and have no statement deadline.
    const isStatement = RUNS_SQL.has(operation.op)
    if (isStatement) this.#out.send({ type: 'started', index, statementMs: operation.statementMs })
    else if (this.#isAnnounced || this.#isOthersTime()) this.#out.send({ type: 'overhead', index })
    this.#isAnnounced = isStatement
    this.#applied = index
    return applyOperation(
      cell,
      operation,
      session === undefined ? this.#context : { ...this.#context, session },
    )
  }

  /** The node would count further work for the operation that it heard of last. */
  #isOthersTime(): boolean {
    return this.#context.clock.monotonic() - Math.max(this.#startedAt, this.#out.sentAt) > ANNOUNCE_MS
  }
}
