import type { Clock } from '../../base/clock.ts'
import type { Log } from '../../base/log.ts'
import { type CellErrorCode, isCellError } from '../../errors.ts'
import type {
  CallOptions,
  GetOptions,
  ListOptions,
  ObjectBody,
  ObjectContent,
  ObjectEntry,
  ObjectStore,
  SweepOptions,
  TransferOptions,
} from './object-store.ts'

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

/** Passes every call on to an object store, and tells how it ended. A call that its caller gave up counts for nothing. */
export class ObservedObjectStore implements ObjectStore {
  readonly #inner: ObjectStore
  readonly #note: (ended: EndedCall) => void

  constructor(inner: ObjectStore, note: (ended: EndedCall) => void) {
    this.#inner = inner
    this.#note = note
  }

  get url(): string {
    return this.#inner.url
  }

  put(key: string, body: ObjectBody, options?: TransferOptions): Promise<void> {
    return this.#observe('put', options, () => this.#inner.put(key, body, options))
  }

  get(key: string, options?: GetOptions): Promise<ObjectContent | undefined> {
    return this.#observe('get', options, () => this.#inner.get(key, options))
  }

  head(key: string, options?: CallOptions): Promise<{ size: number } | undefined> {
    return this.#observe('head', options, () => this.#inner.head(key, options))
  }

  async *list(prefix: string, options?: ListOptions): AsyncGenerator<ObjectEntry> {
    try {
      yield* this.#inner.list(prefix, options)
      this.#note({ call: 'list' })
    } catch (error) {
      this.#failed('list', options, error)
      throw error
    }
  }

  delete(key: string, options?: CallOptions): Promise<void> {
    return this.#observe('delete', options, () => this.#inner.delete(key, options))
  }

  sweepUploads(prefix: string, olderThanMs: number, options?: SweepOptions): Promise<number> {
    return this.#observe('sweep', options, () => this.#inner.sweepUploads(prefix, olderThanMs, options))
  }

  close(): Promise<void> {
    return this.#inner.close()
  }

  async #observe<T>(
    call: ObjectStoreCall,
    options: CallOptions | undefined,
    run: () => Promise<T>,
  ): Promise<T> {
    try {
      const value = await run()
      this.#note({ call })
      return value
    } catch (error) {
      this.#failed(call, options, error)
      throw error
    }
  }

  #failed(call: ObjectStoreCall, options: CallOptions | undefined, error: unknown): void {
    if (options?.signal?.aborted === true || isCellError(error, 'store_closed')) return
    // The answer to a question: somebody has stored the object before.
    if (isCellError(error, 'object_exists')) this.#note({ call })
    else {
      const { code, message } = isCellError(error) ? error : { code: 'internal' as const, message: undefined }
      this.#note({ call, code, why: message })
    }
  }
}
