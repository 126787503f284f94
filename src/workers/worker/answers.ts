import type { CellDatabase } from '../../engine/cell-database.ts'
import type { Outcome } from '../../engine/commits/work-group.ts'
import { resultBytes } from '../../service/answer-size.ts'
import { Packing } from '../protocol/packed.ts'
import type { ProvisionalTransaction, WireOutcome, WorkerOutbox } from '../protocol/protocol.ts'

/** Answers beyond this size are sent at once: each look-up can return a value of 1 MiB. */
const WAITING_BYTES = 1_048_576

/** Collects and sends the answers to one cell's operations. */
export class Answers {
  readonly #out: WorkerOutbox
  readonly #first: number
  /** By their place in the cell. */
  readonly #given: boolean[] = []
  #waiting: WireOutcome[] = []
  #packing = new Packing()
  #waitingBytes = 0
  #hasCommitted = false
  /** Sent, but provisional until their transaction is committed. */
  #provisional: number[] = []
  readonly #unsynced: { transaction: number; indexes: number[] }[] = []

  /** @param first the number of the cell's first operation */
  constructor(out: WorkerOutbox, first: number) {
    this.#out = out
    this.#first = first
  }

  has(index: number): boolean {
    return this.#given[index - this.#first] === true
  }

  add(index: number, outcome: Outcome): void {
    this.#given[index - this.#first] = true
    this.#waiting.push(this.#packing.outcome(index, outcome))
    this.#waitingBytes += resultBytes(outcome.ok ? outcome.value : undefined)
    if (this.#waitingBytes > WAITING_BYTES) this.flush()
  }

  /** What is added next may have committed by itself, outside of a group commit. */
  noteCommit(): void {
    this.#hasCommitted = true
  }

  /** For {@link WorkerOutbox}'s `flush`, before the COMMIT: if the node no longer reads, the transaction must not be committed. */
  provisional(
    changes: readonly { index: number }[],
    outcomes: readonly Outcome[],
    transaction: ProvisionalTransaction,
  ): void {
    this.flush()
    this.#provisional = changes.map(({ index }) => index)
    const packing = new Packing()
    const packed = outcomes.map((outcome, i) => packing.outcome(this.#provisional[i] as number, outcome))
    const { parts, isJson } = packing.envelope
    this.#out.post({ type: 'results', outcomes: packed, transaction }, parts, isJson)
  }

  /** @param syncsLater what was committed is not on disk before {@link synced} or {@link sync} */
  committed(transaction: number, syncsLater: boolean): void {
    for (const index of this.#provisional) this.#given[index - this.#first] = true
    if (syncsLater) this.#unsynced.push({ transaction, indexes: this.#provisional })
    else this.#out.post({ type: 'committed', transaction })
  }

  /** For {@link WorkerOutbox}'s `flush`, before anything can move the WAL into the database: until then it tells of the commits, should the worker be killed. */
  tellOfCommits(): void {
    for (const { transaction } of this.#unsynced) this.#out.post({ type: 'unsynced', transaction })
  }

  get hasUnsynced(): boolean {
    return this.#unsynced.length > 0
  }

  /** Syncs the cell's WAL, then reports its commits; if that fails, reports the error instead. Never rejects. */
  async sync(database: CellDatabase): Promise<void> {
    try {
      await database.syncs.sync()
      this.synced()
    } catch (error) {
      for (const index of this.#unsynced.flatMap(({ indexes }) => indexes))
        this.add(index, { ok: false, error })
      this.flush()
    }
  }

  /** Reports the commits: they are on disk. */
  synced(): void {
    for (const { transaction } of this.#unsynced) this.#out.post({ type: 'committed', transaction })
  }

  flush(): void {
    if (this.#waiting.length === 0) return
    const hasCommitted = this.#hasCommitted || undefined
    const { parts, isJson } = this.#packing.envelope
    this.#out.post(
      { type: 'results', outcomes: this.#waiting, transaction: undefined, hasCommitted },
      parts,
      isJson,
    )
    this.#hasCommitted = false
    this.#waiting = []
    this.#packing = new Packing()
    this.#waitingBytes = 0
  }
}
