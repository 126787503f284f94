import { LruCache } from '../../base/lru-cache.ts'
import type { CellDatabase } from '../../engine/cell-database.ts'
import type { GroupEvents, GroupWork, Outcome } from '../../engine/group-commit.ts'
import { rowsBytes } from '../../service/answer-size.ts'
import {
  type ApplyContext,
  applyOperation,
  mayChange,
  type ParsedOperation,
  parseOperation,
} from '../../service/apply-operation.ts'
import type { CellOperation } from '../../service/operations.ts'
import type { Cell } from '../../store/cell.ts'
import type { LocalCells } from '../../store/local-cells.ts'
import { transactionName, writeCommitMarker } from '../protocol/commit-marker.ts'
import type { BatchCell } from '../protocol/protocol.ts'
import { Answers } from './answers.ts'
import type { Outbox } from './outbox.ts'

/** Reads that take little, each by itself. */
const LOOKUPS: ReadonlySet<CellOperation['op']> = new Set(['kv.get', 'kv.ttl'])

/** Operations whose results can be large: they are sent before the next is run. */
const LARGE: ReadonlySet<CellOperation['op']> = new Set(['sql', 'kv.list', 'kv.mget', 'batch'])

/** Milliseconds for which a cell's answer waits for the fsyncs of others. */
const TELL_EVERY_MS = 5

/** A group whose results take more is committed: all of them are in memory until then. */
const GROUP_RESULT_BYTES = 33_554_432

/**
 * Runs batches in a worker. Reads are answered as they come; the changes of a cell share a transaction as a group commit
 * does, and their results leave the process *before* its COMMIT: if the worker is killed then, the node has them, and the
 * marker in the transaction tells whether they count.
 */
export class BatchRunner {
  readonly #cells: LocalCells
  readonly #context: ApplyContext
  readonly #out: Outbox
  readonly #handles: LruCache<Cell>
  #transactions = 0
  /** The node takes it that a statement is running. */
  #isAnnounced = false

  constructor(cells: LocalCells, context: ApplyContext, openCellsMax: number, out: Outbox) {
    this.#cells = cells
    this.#context = context
    this.#out = out
    this.#handles = new LruCache(openCellsMax)
  }

  /** Resolves once all of it is answered. No other batch may begin before. */
  async run(name: string, cells: readonly BatchCell[]): Promise<void> {
    // One cell's COMMIT makes its own fsync. Those of several go side by side.
    const parsed = cells.map(({ cellId, operations }) => ({
      cellId,
      operations: operations.map(parseOperation),
    }))
    const syncsLater = parsed.filter(({ operations }) => operations.some(mayChange)).length > 1
    const unsynced: Promise<void>[] = []
    let first = 0
    for (const { cellId, operations } of parsed) {
      const answers = new Answers(this.#out)
      const database = this.#runCell({ name, cellId, operations, first, answers, syncsLater })
      if (answers.hasUnsynced && database !== undefined) unsynced.push(answers.sync(database))
      first += operations.length
    }
    if (unsynced.length > 0) await this.#allSynced(unsynced)
    this.#out.send({ type: 'done' })
  }

  /** Meanwhile, what is on disk is told of: the fsync of one cell can take long. */
  async #allSynced(unsynced: readonly Promise<void>[]): Promise<void> {
    const { clock } = this.#context
    const tell = () => {
      this.#out.flush()
      timer = clock.setTimer(tell, TELL_EVERY_MS)
    }
    let timer = clock.setTimer(tell, TELL_EVERY_MS)
    this.#out.flush()
    await Promise.all(unsynced)
    timer.cancel()
  }

  /** @returns the cell's database, if it could be opened */
  #runCell({ name, cellId, operations, first, answers, syncsLater }: CellRun): CellDatabase | undefined {
    const changes: [index: number, operation: ParsedOperation][] = []
    let database: CellDatabase | undefined
    try {
      if (this.#cells.pool.peek(cellId) === undefined) this.#out.send({ type: 'upkeep' })
      database = this.#cells.open(cellId)
      const cell = this.#cell(cellId)
      const lookups: [index: number, operation: ParsedOperation][] = []
      for (const [i, operation] of operations.entries()) {
        if (mayChange(operation)) changes.push([first + i, operation])
        else if (LOOKUPS.has(operation.op)) lookups.push([first + i, operation])
        else this.#read(cell, operation, first + i, answers)
      }
      if (lookups.length > 0) this.#lookUp(cell, database, lookups, answers)
      if (changes.length > 0) this.#change({ name, cell, database, changes, answers, syncsLater })
    } catch (error) {
      // The cell can't be used at all; what was answered before stays answered.
      const rest = operations.map((_, i) => first + i).filter((index) => !answers.has(index))
      for (const index of rest) answers.add(index, { ok: false, error })
    }
    answers.flush()
    return database
  }

  /** All in one look at the file: each by itself would lock it and unlock it again. */
  #lookUp(
    cell: Cell,
    database: CellDatabase,
    lookups: readonly [index: number, operation: ParsedOperation][],
    answers: Answers,
  ): void {
    let done = 0
    const lookUp = () => {
      for (const [index, operation] of lookups.slice(done)) {
        this.#read(cell, operation, index, answers)
        done++
        // One that fails can end the transaction: the others go on in another.
        if (!database.inTransaction) return
      }
    }
    if (lookups.length === 1) lookUp()
    while (done < lookups.length) database.read(lookUp)
  }

  #read(cell: Cell, operation: ParsedOperation, index: number, answers: Answers): void {
    const isLarge = LARGE.has(operation.op)
    if (isLarge) answers.flush()
    answers.add(
      index,
      outcomeOf(() => this.#apply(cell, operation, index)),
    )
    if (isLarge) answers.flush()
  }

  #change({ name, cell, database, changes, answers, syncsLater }: ChangeRun): void {
    answers.flush()
    // A BEGIN may have to see to a log that is too long, and that time is not the last statement's.
    if (this.#isAnnounced) this.#out.flush()
    const works = changes.map(
      ([index, operation]) =>
        new Change(index, operation, () => this.#apply(cell, operation, index), answers),
    )
    let transaction = ''
    let bytes = 0
    const events: GroupEvents = {
      beforeCommit: (group, outcomes) => {
        this.#transactions++
        transaction = transactionName(name, this.#transactions)
        bytes = 0
        writeCommitMarker(database, transaction)
        answers.provisional(group as readonly Change[], outcomes, transaction)
      },
      committed: () => answers.committed(transaction, syncsLater),
      isFull: (outcomes) => {
        bytes += resultBytes(outcomes.at(-1))
        return bytes > GROUP_RESULT_BYTES
      },
    }
    if (syncsLater) database.commitUnsynced(() => database.commitGroup(works, events))
    else database.commitGroup(works, events)
  }

  #apply(cell: Cell, operation: ParsedOperation, index: number): unknown {
    // Only these can take long. All others are bounded by what they touch, and their time is not a statement's.
    const isStatement = operation.op === 'sql' || operation.op === 'batch'
    if (isStatement) this.#out.send({ type: 'started', index })
    else if (this.#isAnnounced) this.#out.send({ type: 'upkeep' })
    this.#isAnnounced = isStatement
    return applyOperation(cell, operation, this.#context)
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

interface CellRun {
  /** Of the batch. */
  name: string
  cellId: string
  operations: readonly ParsedOperation[]
  /** The first one's number in the batch. */
  first: number
  answers: Answers
  /** The fsync is made by itself, after the COMMIT. */
  syncsLater: boolean
}

interface ChangeRun extends Pick<CellRun, 'name' | 'answers' | 'syncsLater'> {
  cell: Cell
  database: CellDatabase
  changes: readonly [index: number, operation: ParsedOperation][]
}

/** A change on its way through a group. */
class Change implements GroupWork {
  readonly index: number
  readonly isAtomic: boolean
  readonly run: () => unknown
  readonly #answers: Answers

  constructor(index: number, { op }: ParsedOperation, run: () => unknown, answers: Answers) {
    this.index = index
    // What the KV part does is one statement, or sees to itself.
    this.isAtomic = op.startsWith('kv.')
    this.run = run
    this.#answers = answers
  }

  settle(outcome: Outcome): void {
    if (!this.#answers.has(this.index)) this.#answers.add(this.index, outcome)
  }
}

function outcomeOf(run: () => unknown): Outcome {
  try {
    return { ok: true, value: run() }
  } catch (error) {
    return { ok: false, error }
  }
}

/** What a statement's rows take: RETURNING makes changes answer with as much as reads. */
function resultBytes(outcome: Outcome | undefined): number {
  return outcome?.ok === true ? rowsBytes(outcome.value) : 0
}
