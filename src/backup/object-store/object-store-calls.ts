import type { Clock } from '../../base/clock.ts'
import type { Log } from '../../base/log.ts'
import type { CellErrorCode } from '../../errors.ts'

/** What the object store is asked to do; `sweep` removes uploads that nobody finished. */
export type ObjectStoreCall = 'put' | 'get' | 'head' | 'list' | 'delete' | 'sweep'

/** How one call ended. */
export interface EndedCall {
  call: ObjectStoreCall
  /** Undefined: it did what it should. `object_exists` is an answer too, and no failure. */
  code?: CellErrorCode | undefined
  /** For the log, if it failed. */
  why?: string | undefined
}

/** The calls of one kind. */
export interface CallCounts {
  call: ObjectStoreCall
  calls: number
  /** By code, those of `calls` that failed. */
  failures: { code: CellErrorCode; count: number }[]
}

/** The calls to a store's object store, of all its processes, and whether it answers. */
export class ObjectStoreCalls {
  readonly url: string
  readonly #clock: Clock
  readonly #log: Log
  readonly #counts = new Map<ObjectStoreCall, { calls: number; failures: Map<CellErrorCode, number> }>()
  #lostAt: number | undefined

  constructor(url: string, clock: Clock, log: Log) {
    this.url = url
    this.#clock = clock
    this.#log = log
  }

  /** When it stopped answering, in epoch milliseconds; null while it answers. */
  get lostAt(): number | null {
    return this.#lostAt ?? null
  }

  note({ call, code, why }: EndedCall): void {
    const counts = this.#counts.get(call) ?? { calls: 0, failures: new Map() }
    this.#counts.set(call, counts)
    counts.calls++
    if (code !== undefined) counts.failures.set(code, (counts.failures.get(code) ?? 0) + 1)
    if (code === 'object_store_unavailable') this.#lost(call, why)
    else if (code === undefined) this.#back()
  }

  list(): CallCounts[] {
    return [...this.#counts].map(([call, { calls, failures }]) => ({
      call,
      calls,
      failures: [...failures].map(([code, count]) => ({ code, count })),
    }))
  }

  #lost(call: ObjectStoreCall, why: string | undefined): void {
    if (this.#lostAt !== undefined) return
    this.#lostAt = this.#clock.now()
    this.#log.warn(
      { objectStore: this.url, call, why },
      'the object store does not answer; cells serve on, backups wait',
    )
  }

  #back(): void {
    if (this.#lostAt === undefined) return
    const lostMs = Math.max(0, this.#clock.now() - this.#lostAt)
    this.#lostAt = undefined
    this.#log.info({ objectStore: this.url, lostMs }, 'the object store answers again')
  }
}
