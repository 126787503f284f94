import { randomUUID } from 'node:crypto'
import type {
  BackupProgressEvent,
  RestoreOptions,
  RestoreResult,
} from '../../backup/versions/backup-types.ts'
import type { Clock } from '../../base/clock.ts'
import { CellError } from '../../errors.ts'
import type { ProblemDocument } from '../answers/problem-document.ts'

/** Restores of an account that are remembered. */
const PER_ACCOUNT_MAX = 100
/** Those of all accounts. */
const TOTAL_MAX = 10_000
/** How long after its end. */
const KEPT_MS = 3_600_000
const RETRY_MS = 5_000

/** A restore that was answered before its end, for its client to ask about. */
export interface BegunRestore {
  readonly id: string
  readonly cellId: string
  /** Empty for the store's owner. */
  readonly account: string
  /** Epoch milliseconds. */
  readonly startedAt: number
  /** The newest news of it; undefined until its first byte. */
  progress: BackupProgressEvent | undefined
  /** Undefined while it waits or runs. */
  end: RestoreEnd | undefined
  /** Ends it, unless it is over or beyond its switch. Resolves at its end. */
  cancel(): Promise<void>
}

interface RestoreEnd {
  /** Epoch milliseconds. */
  at: number
  /** By the monotonic clock. */
  forgetAtMs: number
  outcome: { result: RestoreResult } | { problem: ProblemDocument }
}

export interface RestoreWork {
  run(options: Required<Pick<RestoreOptions, 'signal' | 'onProgress'>>): Promise<RestoreResult>
  /** An error as its client sees it. */
  explain(error: unknown): ProblemDocument
  /** What `run` refuses before this resolves is thrown, and not remembered. */
  atOnce: Promise<void>
}

/**
 * The restores that were answered before their end. So many of each account are remembered, for an hour after their end, or
 * until newer ones take their place. They end with the store, which cancels them.
 */
export class BegunRestores {
  readonly #clock: Clock
  /** By id, the oldest first. */
  readonly #restores = new Map<string, BegunRestore>()

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** Starts a restore. @throws `rate_limited` if too many of the account run; what is refused at once */
  async begin(account: string, cellId: string, { run, explain, atOnce }: RestoreWork): Promise<BegunRestore> {
    this.#makeRoom(account)
    const id = randomUUID()
    const startedAt = this.#clock.now()
    const canceling = new AbortController()
    const restore: BegunRestore = {
      id,
      cellId,
      account,
      startedAt,
      progress: undefined,
      end: undefined,
      async cancel() {
        canceling.abort()
        await ended
      },
    }
    this.#restores.set(id, restore)
    const onProgress = (event: BackupProgressEvent) => {
      restore.progress = event
    }
    const ending = run({ signal: canceling.signal, onProgress }).then(
      (result) => ({ result }),
      (error: unknown) => ({ error: canceling.signal.aborted ? canceled() : error }),
    )
    const ended = ending.then((outcome) => {
      const at = { at: this.#clock.now(), forgetAtMs: this.#clock.monotonic() + KEPT_MS }
      restore.end = {
        ...at,
        outcome: 'error' in outcome ? { problem: explain(outcome.error) } : outcome,
      }
    })
    const first = await Promise.race([ending, atOnce])
    if (first !== undefined && 'error' in first) {
      this.#restores.delete(id)
      throw first.error
    }
    return restore
  }

  find(account: string, cellId: string, id: string): BegunRestore | undefined {
    const found = this.#restores.get(id)
    return found?.account === account && found.cellId === cellId && !this.#isOver(found) ? found : undefined
  }

  /** Forgets what is over, and then those that ended first. @throws `rate_limited` */
  #makeRoom(account: string): void {
    for (const each of this.#restores.values()) if (this.#isOver(each)) this.#restores.delete(each.id)
    const own = [...this.#restores.values()].filter((each) => each.account === account)
    if (own.length >= PER_ACCOUNT_MAX && !this.#forgetOldest(own)) throw tooMany()
    // Those that run are bounded by each account's own bound, and by the queue of restores.
    if (this.#restores.size >= TOTAL_MAX) this.#forgetOldest(this.#restores.values())
  }

  #forgetOldest(some: Iterable<BegunRestore>): boolean {
    for (const { id, end } of some) if (end !== undefined) return this.#restores.delete(id)
    return false
  }

  #isOver({ end }: BegunRestore): boolean {
    return end !== undefined && end.forgetAtMs <= this.#clock.monotonic()
  }
}

function tooMany(): CellError {
  return new CellError(
    'rate_limited',
    `${PER_ACCOUNT_MAX} restores of the account are under way that were answered before their end, which is the most. Try again later.`,
    { limit: PER_ACCOUNT_MAX, retryAfterMs: RETRY_MS },
  )
}

function canceled(): CellError {
  return new CellError('restore_canceled', 'The restore was canceled. The cell is as it was before.')
}
