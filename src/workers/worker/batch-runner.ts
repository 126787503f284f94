import { LruCache } from '../../base/lru-cache.ts'
import type { CellDatabase } from '../../engine/cell-database.ts'
import type { ApplyContext } from '../../service/apply-operation.ts'
import { OpenHolds } from '../../service/holds/open-holds.ts'
import type { ReadBounds } from '../../service/requests/cell-routes.ts'
import type { Cell } from '../../store/open/cell.ts'
import type { LocalCells } from '../../store/open/local-cells.ts'
import type { BatchCell, WorkerOutbox } from '../protocol/protocol.ts'
import { Answers } from './answers.ts'
import { CellRun, type CellRunParts } from './cell-run.ts'
import { JointCommits } from './joint-commits.ts'
import { OperationRunner, type RunnerSettings } from './operation-runner.ts'
import { hasChange, parseBatch } from './parsed-batch.ts'
import { ProcessorTime } from './processor-time.ts'

/** Milliseconds that a cell's answer waits for the fsyncs of other cells. */
const FLUSH_EVERY_MS = 5

export interface BatchSettings extends RunnerSettings {
  openCellsMax: number
}

/**
 * Runs batches in a worker. Reads are answered at once. The changes of a cell share a transaction, as in a group commit,
 * and their results leave the process *before* its COMMIT. If the worker is killed during the COMMIT, the node has the
 * results, and the cell's WAL tells whether they count: see wal-end.ts.
 */
export class BatchRunner {
  readonly #cells: LocalCells
  readonly #context: ApplyContext
  readonly #bounds: ReadBounds
  readonly #out: WorkerOutbox
  readonly #handles: LruCache<Cell>
  readonly #joint: JointCommits
  readonly #runner: OperationRunner
  readonly #processor: ProcessorTime
  readonly #parts: CellRunParts
  #transactions = 0

  constructor(
    cells: LocalCells,
    context: ApplyContext,
    settings: BatchSettings,
    out: WorkerOutbox,
    processorMs?: () => number,
  ) {
    this.#cells = cells
    // Until the node has heard of a commit, the log may tell whether it counts.
    cells.leavesLongLogs = true
    this.#context = context
    this.#bounds = settings.bounds
    this.#out = out
    this.#joint = new JointCommits(out)
    this.#runner = new OperationRunner(context, settings, out)
    this.#processor = new ProcessorTime(context.clock, processorMs)
    // The cache is sure to keep half of that: a handle for each open cell.
    this.#handles = new LruCache(2 * settings.openCellsMax)
    this.#parts = {
      cells,
      out,
      joint: this.#joint,
      runner: this.#runner,
      holds: new OpenHolds(settings.bounds.holds),
      handle: (cellId) => this.#handle(cellId),
      nextTransaction: () => ++this.#transactions,
    }
  }

  /** Resolves once all operations are answered, or returned. No other batch may start before that. */
  async run(cells: readonly BatchCell[]): Promise<void> {
    this.#runner.begin()
    this.#processor.begin()
    const spent = new Map<number, number>()
    const runs = this.#runCells(cells, spent)
    const isAnnounced = this.#joint.commit()
    const unsynced = new Map<CellDatabase, Answers>()
    for (const { database, answers } of runs)
      if (answers.hasUnsynced && database !== undefined) unsynced.set(database, answers)
    if (unsynced.size > 0) await this.#sync(unsynced, isAnnounced)
    for (const run of runs) this.#shortenLog(run)
    const returned = runs.flatMap((run) => run.unanswered())
    const held = runs.flatMap((run) => this.#waitForHold(run))
    const { counts, pool } = this.#cells
    const counted = {
      statements: counts.statements,
      commits: counts.commits,
      cellsOpen: pool.size,
      heaviest: pool.heaviestOwner,
    }
    this.#out.send({
      type: 'done',
      returned: someOf(returned),
      held: someOf(held),
      spent: someOf([...spent]),
      counts: counted,
    })
  }

  /** @param spent the processor's time in milliseconds, by the cell's place in the batch */
  #runCells(cells: readonly BatchCell[], spent: Map<number, number>): CellRun[] {
    const parsed = parseBatch(cells, this.#bounds)
    // With one changed cell, the COMMIT does the fsync. With several, all are stored together afterwards.
    const syncsLater = parsed.filter(({ operations }) => hasChange(operations)).length > 1
    let first = 0
    return parsed.map(({ cellId, operations }, at) => {
      const spend = () => {
        const ms = this.#processor.lap()
        if (ms > 0) spent.set(at, (spent.get(at) ?? 0) + ms)
      }
      const answers = new Answers(this.#out, first)
      const run = new CellRun(this.#parts, { cellId, operations, first, answers, syncsLater, spend })
      if (at === 0 || !this.#runner.isOver()) run.run()
      first += operations.length
      return run
    })
  }

  /** Its operations that wait for a hold are sent again at its end. @returns their numbers */
  #waitForHold(run: CellRun): number[] {
    const held = run.heldBack()
    if (held.length > 0) {
      const { cellId } = run
      void run.database?.holds.released().then(() => this.#out.send({ type: 'released', cellId }))
    }
    return held
  }

  /** Once all of its answers have left. */
  #shortenLog({ cellId, database }: CellRun): void {
    if (!database?.checkpoints.isLong) return
    this.#out.flush()
    this.#cells.pool.work(cellId, () => database.shortenLog())
  }

  /** Stores what the cells of the batch have committed, in the commit log if it takes that. */
  async #sync(unsynced: ReadonlyMap<CellDatabase, Answers>, isAnnounced: boolean): Promise<void> {
    if (!isAnnounced) this.#out.send({ type: 'overhead', index: undefined })
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

  #handle(cellId: string): Cell {
    let cell = this.#handles.get(cellId)
    if (cell === undefined) {
      cell = this.#cells.handle(cellId)
      this.#handles.set(cellId, cell)
    }
    return cell
  }
}

/** An empty list needs no bytes in a message. */
function someOf<T>(list: T[]): T[] | undefined {
  return list.length > 0 ? list : undefined
}
