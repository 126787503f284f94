import type { CellDatabase } from '../../engine/cell-database.ts'
import type { GroupEvents, GroupWork, Outcome } from '../../engine/commits/work-group.ts'
import { NO_WAL, type WalEnd } from '../../engine/wal/wal-end.ts'
import { resultBytes } from '../../service/answer-size.ts'
import { mayChange, needsSession, type ParsedOperation } from '../../service/apply-operation.ts'
import type { OpenHolds } from '../../service/holds/open-holds.ts'
import { type OperationHold, SMALL_OPERATIONS } from '../../service/operations.ts'
import type { Cell } from '../../store/open/cell.ts'
import type { LocalCells } from '../../store/open/local-cells.ts'
import type { ProvisionalTransaction, WorkerOutbox } from '../protocol/protocol.ts'
import type { Answers } from './answers.ts'
import { JointCommits } from './joint-commits.ts'
import type { OperationRunner } from './operation-runner.ts'
import { type Queued, Refused } from './parsed-batch.ts'

/** A group with larger results is committed: all of them are in memory until then. */
const GROUP_RESULT_BYTES = 33_554_432

/** What the runs of a worker share. */
export interface CellRunParts {
  cells: LocalCells
  out: WorkerOutbox
  joint: JointCommits
  runner: OperationRunner
  holds: OpenHolds
  handle(cellId: string): Cell
  nextTransaction(): number
}

/** The operations of one cell in a batch. */
export interface CellWork {
  cellId: string
  operations: readonly Queued[]
  /** The first operation's number in the batch. */
  first: number
  answers: Answers
  /** The fsync follows after the COMMIT, outside of it. */
  syncsLater: boolean
  /** Charges the cell with the processor's time since the last call. */
  spend(): void
}

type Numbered = readonly [index: number, operation: ParsedOperation]

/** What a batch has for one cell, by how it runs. */
interface Sorted {
  lookups: Numbered[]
  changes: Numbered[]
  /** Each runs alone, with transactions of its own. */
  sessions: Numbered[]
}

/**
 * Runs what a batch has for one cell: reads are answered at once, and the changes share a transaction. While a hold has the cell, only
 * its own operations and reads run. The rest waits at the node for its end.
 */
export class CellRun {
  readonly #parts: CellRunParts
  readonly #work: CellWork
  #database: CellDatabase | undefined
  /** The numbers of operations that wait for the end of a hold. */
  #heldBack: number[] = []

  constructor(parts: CellRunParts, work: CellWork) {
    this.#parts = parts
    this.#work = work
  }

  get cellId(): string {
    return this.#work.cellId
  }

  get answers(): Answers {
    return this.#work.answers
  }

  /** Undefined until it is open. */
  get database(): CellDatabase | undefined {
    return this.#database
  }

  run(): void {
    const { answers, spend } = this.#work
    try {
      const database = this.#open()
      const cell = this.#parts.handle(this.#work.cellId)
      const { lookups, changes, sessions } = this.#read(cell)
      if (lookups.length > 0) this.#lookUp(cell, database, lookups)
      const [ofHolds, others] = [sessions.filter(isOfHold), sessions.filter((each) => !isOfHold(each))]
      this.#runSessions(cell, ofHolds)
      if (database.held === undefined && changes.length > 0) this.#change(cell, database, changes)
      else this.#holdBack(changes)
      this.#runSessions(cell, others)
    } catch (error) {
      // The cell can't be used. Operations that have an answer keep it.
      for (const index of this.unanswered()) answers.add(index, { ok: false, error })
    }
    answers.flush()
    spend()
  }

  /** The numbers of operations that wait for the end of a hold; none if that has come. */
  heldBack(): number[] {
    return this.#database?.held === undefined ? [] : this.#heldBack
  }

  /** The numbers of operations that have no answer. */
  unanswered(): number[] {
    const { operations, first, answers } = this.#work
    return operations.map((_, i) => first + i).filter((index) => !answers.has(index))
  }

  #open(): CellDatabase {
    const { cells, joint, out } = this.#parts
    const { cellId, operations, first } = this.#work
    const { pool } = cells
    const isShort = pool.isShortOfMemory()
    const mayClose = isShort || pool.peek(cellId) === undefined
    if (mayClose || !JointCommits.allow(operations)) joint.commit()
    if (mayClose) out.send({ type: 'overhead', index: first })
    if (isShort) pool.saveMemory(cellId)
    const database = cells.open(cellId)
    this.#database = database
    // A killed worker has left it: the node has asked by now what of it counts. To write over it would take the disk longer than to append.
    if (database.checkpoints.isLong) {
      if (!mayClose) out.send({ type: 'overhead', index: first })
      pool.work(cellId, () => database.shortenLog())
    }
    return database
  }

  /** Answers the reads that can be large, and those that are refused. @returns the others */
  #read(cell: Cell): Sorted {
    const { runner } = this.#parts
    const { operations, first, answers } = this.#work
    const changes: Numbered[] = []
    const lookups: Numbered[] = []
    const sessions: Numbered[] = []
    let hasRead = false
    for (const [i, queued] of operations.entries()) {
      const operation = runner.read(queued, first + i)
      if (operation === undefined) break
      if (operation instanceof Refused) answers.add(first + i, { ok: false, error: operation.error })
      else if (needsSession(operation)) sessions.push([first + i, operation])
      else if (mayChange(operation)) changes.push([first + i, operation])
      else if (SMALL_OPERATIONS.has(operation.op)) lookups.push([first + i, operation])
      // Changes that came later wait too, and earlier ones run: or a cell's many reads would hold up its changes for good.
      else if (hasRead && runner.isOver()) break
      else {
        this.#readOne(cell, operation, first + i)
        hasRead = true
      }
    }
    return { lookups, changes, sessions }
  }

  #holdBack(operations: readonly Numbered[]): void {
    this.#heldBack.push(...operations.map(([index]) => index))
  }

  #runSessions(cell: Cell, sessions: readonly Numbered[]): void {
    const { answers } = this.#work
    const { runner, out } = this.#parts
    if (sessions.length === 0) return
    // They commit by themselves: what of the group is committed must not be taken for theirs.
    answers.flush()
    answers.tellOfCommits()
    out.flush()
    for (const [i, each] of sessions.entries()) {
      if (this.#database?.held !== undefined && !isOfHold(each)) this.#holdBack([each])
      // Those who wait for the hold that has just ended go on before the next batch.
      else if (this.#database?.holds.hasWaiters && !isOfHold(each)) continue
      // One runs anyway: or a cell's many reads would hold them up for good.
      else if (i === 0 || !runner.isOver()) this.#runSession(cell, each)
    }
  }

  #runSession(cell: Cell, [index, operation]: Numbered): void {
    const { cells, holds, runner, out } = this.#parts
    const { cellId } = this.#work
    const caller = {
      accountId: cells.record(cellId).accountId ?? '',
      committing: (before: WalEnd | undefined) => out.send({ type: 'committing', index, before }),
      // It goes on. A COMMIT that is an operation of its own has its result next.
      committed: () => operation.op === 'work' && out.send({ type: 'started', index }),
      mayStay: operation.mayStay,
    }
    this.#answer(index, () =>
      holds.run(cell, operation.hold as OperationHold, caller, (session) =>
        runner.apply(session.cell, operation, index, session),
      ),
    )
  }

  /** Runs look-ups in one read transaction: each of its own would lock and unlock the file. */
  #lookUp(cell: Cell, database: CellDatabase, lookups: readonly Numbered[]): void {
    const { runner } = this.#parts
    let done = 0
    const lookUp = () => {
      for (const [index, operation] of lookups.slice(done)) {
        if (done > 0 && runner.isOver()) return
        this.#readOne(cell, operation, index)
        done++
        // A failed read can end the transaction. The others then run in a new one.
        if (!database.access.inTransaction) return
      }
    }
    if (lookups.length === 1) lookUp()
    while (done < lookups.length && (done === 0 || !runner.isOver())) database.access.read(lookUp)
  }

  #readOne(cell: Cell, operation: ParsedOperation, index: number): void {
    const { answers } = this.#work
    // Each result is sent before the next operation runs.
    const isLarge = !SMALL_OPERATIONS.has(operation.op)
    if (isLarge) answers.flush()
    this.#answer(index, () => this.#parts.runner.apply(cell, operation, index))
    if (isLarge) answers.flush()
  }

  /** Answers an operation that may commit by itself. */
  #answer(index: number, run: () => unknown): void {
    const { answers } = this.#work
    const { counts } = this.#parts.cells
    const { commits } = counts
    const outcome = outcomeOf(run)
    if (counts.commits !== commits) answers.noteCommit()
    answers.add(index, outcome)
  }

  #change(cell: Cell, database: CellDatabase, changes: readonly Numbered[]): void {
    const { joint, runner } = this.#parts
    const { operations, answers, syncsLater, spend } = this.#work
    answers.flush()
    // A BEGIN may have to checkpoint a WAL that is too long.
    runner.endStatement(changes[0]?.[0] ?? 0)
    const works = changes.map(
      ([index, operation]) =>
        new Change(index, operation, () => runner.apply(cell, operation, index), answers),
    )
    const mayJoin = syncsLater && JointCommits.allow(operations)
    let isJoint = mayJoin
    const events = this.#events(database, () => isJoint)
    const group = mayJoin ? database.prepareGroup(works, events) : undefined
    isJoint = false
    if (group !== undefined)
      joint.add({
        group,
        committed: () => {
          answers.flush()
          spend()
        },
      })
    else if (syncsLater) database.syncs.defer(() => database.commitGroup(works, events))
    else database.commitGroup(works, events)
  }

  /** @param isJoint whether the results leave with those of other cells */
  #events(database: CellDatabase, isJoint: () => boolean): GroupEvents {
    const { out, runner, nextTransaction } = this.#parts
    const { answers, syncsLater } = this.#work
    let transaction: ProvisionalTransaction = { number: 0, before: NO_WAL }
    let hasCommitted = false
    let bytes = 0
    return {
      begins: () => {
        if (hasCommitted) {
          answers.tellOfCommits()
          out.flush()
        }
        transaction = { number: nextTransaction(), before: database.walEnd() }
      },
      beforeCommit: (group, outcomes) => {
        bytes = 0
        answers.provisional(group as readonly Change[], outcomes, transaction)
        if (!isJoint()) out.flush()
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
      isOver: () => runner.isOver(),
    }
  }
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

/** It goes on in a hold; others may begin one. */
function isOfHold([, { hold }]: Numbered): boolean {
  return hold?.isOpen === true
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
