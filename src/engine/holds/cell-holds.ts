import fs from 'node:fs'
import { CellError } from '../../errors.ts'
import { type CellState, heldByTransaction, transactionEnded } from '../cell-state.ts'
import type { GroupCommit } from '../commits/group-commit.ts'
import type { Transactions } from '../commits/transactions.ts'
import { mayOnlyRead } from '../statements/statement-runner.ts'
import type { Checkpoints } from '../wal/checkpoints.ts'
import type { CommitTimes } from '../wal/commit-times.ts'
import type { WalEnd } from '../wal/wal-end.ts'
import type { CellAccess, OpenCell } from './cell-access.ts'
import { CommittedReader, type ReadCell, type ReaderEvents } from './committed-reader.ts'
import { HeldAccess } from './held-access.ts'
import { Hold, type HoldBounds, transactionLost, transactionTooLarge } from './hold.ts'

/** The open cell whose holds they are. */
export interface HoldingCell extends CellAccess, ReadCell {
  /** The hold that has its connection. */
  held: Hold | undefined
  /** As of `CellDatabase`. */
  pins: number
  walEnd(): WalEnd
  readonly checkpoints: Pick<Checkpoints, 'state' | 'frames' | 'readerEnded'>
  readonly times: CommitTimes | undefined
}

export interface CellHoldsParts extends Pick<ReaderEvents, 'beforePrepare'> {
  state: CellState
  transactions: Transactions
  group: Pick<GroupCommit, 'flush' | 'resume'>
  /** Before a change: it may move the log. @throws `busy` */
  changing(): void
  /** What a caller is told of an error. */
  translate(error: unknown): unknown
}

/** The holds of one open cell: at most one that has its connection, and any number of those that only read. */
export class CellHolds {
  readonly #cell: HoldingCell
  readonly #parts: CellHoldsParts
  readonly #open = new Set<Hold>()
  /** For everybody but the hold. */
  #reader: CommittedReader | undefined
  #frames = 0
  /** Somebody waits for the end of the hold: what waits for the group commit does not count, it comes before the next hold. */
  #isAwaited = false
  #hasWaiters = false
  /** Pieces of work that wait for the end of a hold, or run. */
  #works = 0
  #between: PromiseWithResolvers<void> | undefined

  constructor(cell: HoldingCell, parts: CellHoldsParts) {
    this.#cell = cell
    this.#parts = parts
  }

  /** Beside a hold, what is committed of the cell. */
  get reader(): CommittedReader {
    try {
      this.#reader ??= this.#newReader(heldByTransaction)
      return this.#reader
    } catch (error) {
      throw this.#parts.translate(error)
    }
  }

  /** Frames of the log up to the last commit, also beside a hold; undefined if nobody can tell. */
  framesToKeep(): number | undefined {
    const { held, quarantined, usable, checkpoints } = this.#cell
    if (held !== undefined && quarantined === undefined) return this.#frames
    return usable ? checkpoints.frames() : undefined
  }

  /** @throws `busy` beside another one, or in the same step after one that others wait for, unless this one only reads; `invalid_request` inside a transaction */
  begin(bounds: HoldBounds): { hold: Hold; access: OpenCell } {
    const { state, transactions } = this.#parts
    state.assertOpen()
    if (this.#cell.held === undefined && transactions.depth > 0)
      throw new CellError(
        'invalid_request',
        'A hold has a transaction of its own: not inside of another one.',
      )
    if (bounds.readOnly !== true && this.#hasWaiters)
      throw new CellError(
        'busy',
        'Others wait for the cell since the transaction before. Begin the next one in a request of its own.',
      )
    try {
      return bounds.readOnly === true ? this.#beginSnapshot(bounds) : this.#begin(bounds)
    } catch (error) {
      throw this.#parts.translate(error)
    }
  }

  /** @param why what each later use of one is told */
  endAll(why: string): void {
    for (const hold of this.#open) hold.end(transactionLost(why))
  }

  /** A hold has ended in this step that others wait for: one that begins in it, too, is refused. */
  get hasWaiters(): boolean {
    return this.#hasWaiters
  }

  /** Undefined if a hold can begin. Otherwise it resolves when one may: at the end of another, or of what is done {@link between} them. */
  get untilNext(): Promise<void> | undefined {
    return this.#over() ?? this.#between?.promise
  }

  /** Resolves once no hold has the connection. */
  async released(): Promise<void> {
    for (let over = this.#over(); over !== undefined; over = this.#over()) await over
  }

  /** Runs work once no hold has the connection. Holds that wait begin after it, or a loop of them would keep it waiting for good. */
  async between<T>(work: () => T | Promise<T>): Promise<T> {
    this.#between ??= Promise.withResolvers<void>()
    this.#works++
    try {
      await this.released()
      return await work()
    } finally {
      this.#works--
      if (this.#works === 0) {
        this.#between.resolve()
        this.#between = undefined
      }
    }
  }

  #begin(bounds: HoldBounds): { hold: Hold; access: OpenCell } {
    const { state, transactions, group, changing, translate } = this.#parts
    const cell = this.#cell
    state.assertUsable()
    group.flush()
    changing()
    const { frames, checkpointed } = cell.checkpoints.state()
    cell.times?.counted(frames)
    const before = cell.walEnd()
    transactions.enter()
    // If all of them are in the database, the transaction may begin the log again.
    this.#frames = frames > checkpointed ? frames : 0
    const { walBytesMax } = cell.settings.limits
    const bytesMax = this.#walBytes() + walBytesMax
    const hold = new Hold(bounds, {
      transactions,
      before,
      fault: () => {
        if (state.isTransactionLost) return transactionEnded()
        return this.#walBytes() > bytesMax ? transactionTooLarge(walBytesMax) : undefined
      },
      setHeld: (isHeld) => state.setHeld(isHeld),
      translate,
      ended: () => {
        cell.held = undefined
        if (this.#isAwaited) this.#letWaitersBegin()
        this.#reader?.close()
        this.#reader = undefined
        this.#ended(hold)
        group.resume()
      },
    })
    cell.held = hold
    return this.#began(hold, cell)
  }

  /** On a connection of its own. */
  #beginSnapshot(bounds: HoldBounds): { hold: Hold; access: OpenCell } {
    const reader = this.#newReader(mayOnlyRead)
    const { transactions } = reader
    try {
      transactions.enterSnapshot()
    } catch (error) {
      reader.close()
      throw error
    }
    const hold = new Hold(bounds, {
      transactions,
      before: undefined,
      fault: () => undefined,
      setHeld() {},
      translate: this.#parts.translate,
      ended: () => {
        reader.close()
        this.#ended(hold)
        this.#cell.checkpoints.readerEnded()
      },
    })
    return this.#began(hold, reader)
  }

  #began(hold: Hold, connection: CellAccess): { hold: Hold; access: OpenCell } {
    this.#open.add(hold)
    this.#cell.pins++
    return { hold, access: new HeldAccess(hold, connection) }
  }

  /** The end of the hold that has the connection, which its caller waits for. */
  #over(): Promise<void> | undefined {
    const { held } = this.#cell
    if (held === undefined) return undefined
    this.#isAwaited = true
    held.noteWaiter()
    return held.over
  }

  /** Those who wait go on in the next microtask: what begins a hold in the same step as it has ended one would leave them behind. */
  #letWaitersBegin(): void {
    this.#isAwaited = false
    this.#hasWaiters = true
    queueMicrotask(() => {
      this.#hasWaiters = false
    })
  }

  #ended(hold: Hold): void {
    this.#open.delete(hold)
    this.#cell.pins--
  }

  #newReader(refusal: () => CellError): CommittedReader {
    return new CommittedReader(this.#cell, { beforePrepare: this.#parts.beforePrepare, refusal })
  }

  /** Of the log's file: a transaction that does not fit into the cache is written there before its COMMIT. */
  #walBytes(): number {
    return fs.statSync(`${this.#cell.path}-wal`, { throwIfNoEntry: false })?.size ?? 0
  }
}
