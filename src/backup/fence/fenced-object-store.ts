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
} from '../object-store/object-store.ts'
import { extendsHistory, parseLogKey } from '../versions/object-keys.ts'
import type { EpochGuard } from './epoch-guard.ts'

/**
 * An object store in which only the node of the newest epoch writes. What extends history counts once no newer fence was
 * seen after it. Every call rejects with `taken_over` after the epoch is lost.
 */
export class FencedObjectStore implements ObjectStore {
  readonly #store: ObjectStore
  readonly #guard: EpochGuard

  constructor(store: ObjectStore, guard: EpochGuard) {
    this.#store = store
    this.#guard = guard
  }

  get url(): string {
    return this.#store.url
  }

  async put(key: string, body: ObjectBody, options: TransferOptions = {}): Promise<void> {
    const { signal } = options
    await this.#guard.confirm({ signal })
    const isShort = this.#guard.beginWrite()
    await this.#store.put(key, body, options)
    if (extendsHistory(key)) await this.#count(key, isShort, signal)
  }

  get(key: string, options?: GetOptions): Promise<ObjectContent | undefined> {
    return this.#unlessLost(() => this.#store.get(key, options))
  }

  head(key: string, options?: CallOptions): Promise<{ size: number } | undefined> {
    return this.#unlessLost(() => this.#store.head(key, options))
  }

  async *list(prefix: string, options?: ListOptions): AsyncGenerator<ObjectEntry> {
    this.#guard.assertNotLost()
    yield* this.#store.list(prefix, options)
  }

  async delete(key: string, options: CallOptions = {}): Promise<void> {
    await this.#guard.confirm(options)
    await this.#store.delete(key, options)
  }

  async sweepUploads(prefix: string, olderThanMs: number, options: SweepOptions = {}): Promise<number> {
    await this.#guard.confirm({ signal: options.signal })
    return await this.#store.sweepUploads(prefix, olderThanMs, options)
  }

  close(): Promise<void> {
    return this.#store.close()
  }

  /**
   * What does not count is removed: the other node's history goes on without it. But that node may have read it, and have gone on from it, if
   * this one slept meanwhile: then it stays. So do log objects, always: the first one of the other node says which of them count.
   */
  async #count(key: string, isShort: () => boolean, signal: AbortSignal | undefined): Promise<void> {
    try {
      await this.#guard.check({ signal })
    } catch (error) {
      if (parseLogKey(key) === undefined && isShort()) await this.#store.delete(key).catch(() => {})
      throw error
    }
  }

  async #unlessLost<T>(call: () => Promise<T>): Promise<T> {
    this.#guard.assertNotLost()
    return await call()
  }
}
