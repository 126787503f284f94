import { LruCache } from '../../base/lru-cache.ts'
import type { CellDatabase } from '../../engine/cell-database.ts'
import type { GroupEvents, GroupWork, Outcome } from '../../engine/group-commit.ts'
import { sqlShape } from '../../engine/sql-policy/sql-shape.ts'
import { NO_WAL } from '../../engine/wal-end.ts'
import { resultBytes } from '../../service/answer-size.ts'
import {
  type ApplyContext,
  applyOperation,
  mayChange,
  type ParsedOperation,
} from '../../service/apply-operation.ts'
import type { CellOperation } from '../../service/operations.ts'
import type { Cell } from '../../store/cell.ts'
import type { LocalCells } from '../../store/local-cells.ts'
import type { BatchCell, ProvisionalTransaction } from '../protocol/protocol.ts'
import { Answers } from './answers.ts'
import { JointCommits } from './joint-commits.ts'
import type { Outbox } from './outbox.ts'
import {
  hasChange,
  parseBatch,
  type Queued,
  type Readable,
  Refused,
  type Runnable,
  readBody,
} from './parsed-batch.ts'
import { ProcessorTime } from './processor-time.ts'

/** Small reads, which run together in one transaction. */
const LOOKUPS: ReadonlySet<CellOperation['op']> = new Set(['kv.get', 'kv.ttl'])

/** Operations whose results can be large: each result is sent before the next operation runs. */
const LARGE: ReadonlySet<CellOperation['op']> = new Set(['sql', 'kv.list', 'kv.mget', 'batch'])

/** Milliseconds that a cell's answer waits for the fsyncs of other cells. */
const FLUSH_EVERY_MS = 5

/** An operation that starts this many milliseconds after the last message is announced, whatever it is. */
const ANNOUNCE_MS = 5

/** The part of a slice in which further bodies are read, so that there is time left to run what was read. */
const READING_SHARE = 0.5

/** A group with larger results is committed: all of them are in memory until then. */
const GROUP_RESULT_BYTES = 33_554_432

/**
 * Runs batches in a worker. Reads are answered at once. The changes of a cell share a transaction, as in a group commit,
 * and their results leave the process *before* its COMMIT. If the worker is killed during the COMMIT, the node has the
 * results, and the cell's WAL tells whether they count: see wal-end.ts.
 */
export class BatchRunner {
  readonly #cells: LocalCells
  readonly #context: ApplyContext
  readonly #out: Outbox
  readonly #handles: LruCache<Cell>
  #transactions = 0
  /** Monotonic time of the running batch's start: until its first message, the node counts nobody's time. */
  #startedAt = 0
  /** The node was told that a statement is running. */
  #isAnnounced = false
  /** The number of the operation that is applied now. */
  #applied = 0
  readonly #joint: JointCommits
  readonly #sliceMs: number
  readonly #processor: ProcessorTime

  constructor(
    cells: LocalCells,
    context: ApplyContext,
    { openCellsMax, sliceMs, slowMs }: BatchSettings,
    out: Outbox,
    processorMs?: () => number,
  ) {
    this.#cells = cells
    const tell = (sql: string, ms: number) =>
      out.post({ type: 'slow', index: this.#applied, statement: sqlShape(sql), ms })
    this.#context = slowMs === undefined ? context : { ...context, slow: { fromMs: slowMs, tell } }
    this.#out = out
    this.#joint = new JointCommits(out)
    this.#sliceMs = sliceMs
    this.#processor = new ProcessorTime(context.clock, processorMs)
    // The cache is sure to keep half of that: a handle for each open cell.
    this.#handles = new LruCache(2 * openCellsMax)
  }

  /** Resolves once all operations are answered, or returned. No other batch may start before that. */
  async run(cells: readonly BatchCell[]): Promise<void> {
    this.#startedAt = this.#context.clock.monotonic()
    this.#processor.begin()
    const parsed = parseBatch(cells)
    // With one changed cell, the COMMIT does the fsync. With several, all are stored together afterwards.
    const syncsLater = parsed.filter(({ operations }) => hasChange(operations)).length > 1
    const runs: CellRun[] = []
    const spent = new Map<number, number>()
    let first = 0
    for (const [at, { cellId, operations }] of parsed.entries()) {
      const spend = () => {
        const ms = this.#processor.lap()
        if (ms > 0) spent.set(at, (spent.get(at) ?? 0) + ms)
      }
      const answers = new Answers(this.#out, first)
      const run: CellRun = { cellId, operations, first, answers, syncsLater, spend, database: undefined }
      runs.push(run)
      if (at === 0 || !this.#isOver()) this.#runCell(run)
      first += operations.length
    }
    const isToldOf = this.#joint.commit()
    const unsynced = new Map<CellDatabase, Answers>()
    for (const { database, answers } of runs)
      if (answers.hasUnsynced && database !== undefined) unsynced.set(database, answers)
    if (unsynced.size > 0) await this.#sync(unsynced, isToldOf)
    const returned = runs.flatMap(({ operations, first, answers }) => unanswered(operations, first, answers))
    const { counts, pool } = this.#cells
    const counted = { statements: counts.statements, commits: counts.commits, open: pool.size }
    this.#out.send({ type: 'done', returned: someOf(returned), spent: someOf([...spent]), counts: counted })
  }

  /** Other accounts wait for the worker: what has not started goes back to the node. */
  #isOver(share = 1): boolean {
    return this.#context.clock.monotonic() - this.#startedAt > share * this.#sliceMs
  }

  /** @returns undefined if it is left for a later batch: what is read and not run is read once more */
  #runnable(operation: Queued, index: number): Runnable | undefined {
    if (operation.op !== 'unread') return operation
    if (index > 0 && this.#isOver(READING_SHARE)) return undefined
    this.#out.send({ type: 'upkeep', index })
    this.#isAnnounced = true
    return readBody(operation)
  }

  /** Stores what the cells of the batch have committed, in the commit log if it takes that. */
  async #sync(unsynced: ReadonlyMap<CellDatabase, Answers>, isToldOf: boolean): Promise<void> {
    if (!isToldOf) this.#out.send({ type: 'upkeep', index: undefined })
    const alone = new Set(this.#cells.commits.store([...unsynced.keys()]))
    for (const [database, answers] of unsynced) if (!alone.has(database)) answers.synced()
    if (alone.size === 0) return
    // Meanwhile a backup can move the WAL into the database.
    for (const database of alone) unsynced.get(database)?.tellOfCommits()
    this.#out.flush()
    await this.#allSynced([...alone].map((database) => unsynced.get(database)?.sync(database)))
  }

  /** Sends answers of finished fsyncs meanwhile: the fsync of one cell can take long. */
  async #allSynced(unsynced: readonly (Promise<void> | undefined)[]): Promise<void> {
    const { clock } = this.#context
    const flush = () => {
      this.#out.flush()
      timer = clock.setTimer(flush, FLUSH_EVERY_MS)
    }
    let timer = clock.setTimer(flush, FLUSH_EVERY_MS)
    await Promise.all(unsynced)
    timer.cancel()
  }

  #runCell(run: CellRun): void {
    const { cellId, operations, first, answers } = run
    const changes: [index: number, operation: Readable][] = []
    try {
      const isOpen = this.#cells.pool.peek(cellId) !== undefined
      if (!isOpen || !JointCommits.allow(operations)) this.#joint.commit()
      if (!isOpen) this.#out.send({ type: 'upkeep', index: first })
      const database = this.#cells.open(cellId)
      run.database = database
      const cell = this.#cell(cellId)
      const lookups: [index: number, operation: Readable][] = []
      let hasRead = false
      for (const [i, queued] of operations.entries()) {
        const operation = this.#runnable(queued, first + i)
        if (operation === undefined) break
        if (operation instanceof Refused) answers.add(first + i, { ok: false, error: operation.error })
        else if (mayChange(operation)) changes.push([first + i, operation])
        else if (LOOKUPS.has(operation.op)) lookups.push([first + i, operation])
        // Changes that came later wait too, and earlier ones run: or a cell's many reads would hold up its changes for good.
        else if (hasRead && this.#isOver()) break
        else {
          this.#read(cell, operation, first + i, answers)
          hasRead = true
        }
      }
      if (lookups.length > 0) this.#lookUp(cell, database, lookups, answers)
      if (changes.length > 0) this.#change(run, cell, database, changes)
    } catch (error) {
      // The cell can't be used. Operations that have an answer keep it.
      for (const index of unanswered(operations, first, answers)) answers.add(index, { ok: false, error })
    }
    answers.flush()
    run.spend()
  }

  /** Runs look-ups in one read transaction: each of its own would lock and unlock the file. */
  #lookUp(
    cell: Cell,
    database: CellDatabase,
    lookups: readonly [index: number, operation: Readable][],
    answers: Answers,
  ): void {
    let done = 0
    const lookUp = () => {
      for (const [index, operation] of lookups.slice(done)) {
        if (done > 0 && this.#isOver()) return
        this.#read(cell, operation, index, answers)
        done++
        // A failed read can end the transaction. The others then run in a new one.
        if (!database.inTransaction) return
      }
    }
    if (lookups.length === 1) lookUp()
    while (done < lookups.length && (done === 0 || !this.#isOver())) database.read(lookUp)
  }

  #read(cell: Cell, operation: Readable, index: number, answers: Answers): void {
    const isLarge = LARGE.has(operation.op)
    if (isLarge) answers.flush()
    const { counts } = this.#cells
    const { commits } = counts
    const outcome = outcomeOf(() => this.#apply(cell, operation, index))
    if (counts.commits !== commits) answers.noteCommit()
    answers.add(index, outcome)
    if (isLarge) answers.flush()
  }

  #change(
    { operations, answers, syncsLater, spend }: CellRun,
    cell: Cell,
    database: CellDatabase,
    changes: readonly [index: number, operation: Readable][],
  ): void {
    answers.flush()
    // A BEGIN may have to checkpoint a WAL that is too long. That time must not count for the last statement.
    const [[index] = [0]] = changes
    if (this.#isAnnounced) this.#out.send({ type: 'upkeep', index })
    const works = changes.map(
      ([index, operation]) =>
        new Change(index, operation, () => this.#apply(cell, operation, index), answers),
    )
    let transaction: ProvisionalTransaction = { number: 0, before: NO_WAL }
    let hasCommitted = false
    let bytes = 0
    let isJoint = syncsLater && JointCommits.allow(operations)
    const events: GroupEvents = {
      begins: () => {
        if (hasCommitted) {
          answers.tellOfCommits()
          this.#out.flush()
        }
        transaction = { number: ++this.#transactions, before: database.walEnd() }
      },
      beforeCommit: (group, outcomes) => {
        bytes = 0
        answers.provisional(group as readonly Change[], outcomes, transaction)
        if (!isJoint) this.#out.flush()
      },
      committed: () => {
        hasCommitted = true
        // What its own COMMIT has settled is told of before the cell can be closed: closing moves the WAL.
        answers.committed(transaction.number, syncsLater && database.syncs.pending)
      },
      isFull: (outcomes) => {
        bytes += bytesOf(outcomes.at(-1))
        return bytes > GROUP_RESULT_BYTES
      },
      isOver: () => this.#isOver(),
    }
    const group = isJoint ? database.prepareGroup(works, events) : undefined
    isJoint = false
    if (group !== undefined)
      this.#joint.add({
        group,
        committed: () => {
          answers.flush()
          spend()
        },
      })
    else if (syncsLater) database.syncs.defer(() => database.commitGroup(works, events))
    else database.commitGroup(works, events)
  }

  #apply(cell: Cell, operation: Readable, index: number): unknown {
    // Only these can take long: the others are bounded by the data they touch, and have no statement deadline.
    const isStatement = operation.op === 'sql' || operation.op === 'batch'
    if (isStatement) this.#out.send({ type: 'started', index, statementMs: operation.statementMs })
    else if (this.#isAnnounced || this.#isOthersTime()) this.#out.send({ type: 'upkeep', index })
    this.#isAnnounced = isStatement
    this.#applied = index
    return applyOperation(cell, operation, this.#context)
  }

  /** The node would count further work for the operation that it heard of last. */
  #isOthersTime(): boolean {
    return this.#context.clock.monotonic() - Math.max(this.#startedAt, this.#out.sentAt) > ANNOUNCE_MS
  }

  #cell(cellId: string): Cell {
    let cell = this.#handles.get(cellId)
    if (cell === undefined) {
      cell = this.#cells.handle(cellId)
      this.#handles.set(cellId, cell)
    }
    return cell
  }
}

export interface BatchSettings {
  openCellsMax: number
  /** Milliseconds after which a batch starts no further operation. */
  sliceMs: number
  /** Milliseconds from which on a statement is slow; undefined: none is. */
  slowMs?: number | undefined
}

interface CellRun {
  cellId: string
  operations: readonly Queued[]
  /** The first operation's number in the batch. */
  first: number
  answers: Answers
  /** The fsync follows after the COMMIT, outside of it. */
  syncsLater: boolean
  /** Charges the cell with the processor's time since the last call. */
  spend(): void
  /** Undefined until it is open. */
  database: CellDatabase | undefined
}

/** A change in a group commit. */
class Change implements GroupWork {
  readonly index: number
  readonly isAtomic: boolean
  readonly run: () => unknown
  readonly #answers: Answers

  constructor(index: number, { op }: ParsedOperation, run: () => unknown, answers: Answers) {
    this.index = index
    // A KV operation is one statement, or has a savepoint of its own.
    this.isAtomic = op.startsWith('kv.')
    this.run = run
    this.#answers = answers
  }

  settle(outcome: Outcome): void {
    if (!this.#answers.has(this.index)) this.#answers.add(this.index, outcome)
  }
}

/** The numbers of operations that have no answer. */
function unanswered(operations: readonly unknown[], first: number, answers: Answers): number[] {
  return operations.map((_, i) => first + i).filter((index) => !answers.has(index))
}

/** An empty list needs no bytes in a message. */
function someOf<T>(list: T[]): T[] | undefined {
  return list.length > 0 ? list : undefined
}

function outcomeOf(run: () => unknown): Outcome {
  try {
    return { ok: true, value: run() }
  } catch (error) {
    return { ok: false, error }
  }
}

/** Size of a result: with RETURNING, or as a deleted entry, changes return as much as reads. */
function bytesOf(outcome: Outcome | undefined): number {
  return outcome?.ok === true ? resultBytes(outcome.value) : 0
}
