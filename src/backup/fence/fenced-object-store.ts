import { type Clock, delay } from '../../base/clock.ts'
import { compareKeys } from '../object-store/object-key-rules.ts'
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
import { BACKUPS_PREFIX, extendsHistory, parseLogKey } from '../versions/object-keys.ts'
import type { EpochGuard } from './epoch-guard.ts'

/** Milliseconds until a removal that has failed is tried again. */
const REMOVE_AGAIN_MS = 1_000

/**
 * An object store in which only the node of the newest epoch writes. What extends history counts once no newer fence was
 * seen after it. Every call rejects with `taken_over` after the epoch is lost. A listing of a cell shows what was stored here.
 */
export class FencedObjectStore implements ObjectStore {
  readonly #store: ObjectStore
  readonly #guard: EpochGuard
  readonly #clock: Clock
  readonly #own: OwnObjects

  constructor(store: ObjectStore, guard: EpochGuard, clock: Clock) {
    this.#store = store
    this.#own = new OwnObjects(store)
    this.#guard = guard
    this.#clock = clock
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
    if (isOfCell(key)) this.#own.stored(key)
  }

  get(key: string, options?: GetOptions): Promise<ObjectContent | undefined> {
    return this.#unlessLost(() => this.#store.get(key, options))
  }

  head(key: string, options?: CallOptions): Promise<{ size: number } | undefined> {
    return this.#unlessLost(() => this.#store.head(key, options))
  }

  async *list(prefix: string, options?: ListOptions): AsyncGenerator<ObjectEntry> {
    this.#guard.assertNotLost()
    const listing = this.#store.list(prefix, options)
    if (!isOfCell(prefix)) return yield* listing
    const { after, signal } = options ?? {}
    yield* this.#own.addTo(listing, prefix, after, { signal })
  }

  async delete(key: string, options: CallOptions = {}): Promise<void> {
    await this.#guard.confirm(options)
    await this.#store.delete(key, options)
    this.#own.removed(key)
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
      if (parseLogKey(key) === undefined) await this.#remove(key, isShort)
      throw error
    }
  }

  /** For as long as it may be removed: if it stays, a total loss of the other node can bring it back. */
  async #remove(key: string, isShort: () => boolean): Promise<void> {
    while (isShort()) {
      try {
        return await this.#store.delete(key)
      } catch {
        await delay(this.#clock, REMOVE_AGAIN_MS)
      }
    }
  }

  async #unlessLost<T>(call: () => Promise<T>): Promise<T> {
    this.#guard.assertNotLost()
    return await call()
  }
}

/** A key of a cell's objects, or the beginning of some. */
function isOfCell(key: string): boolean {
  return key.startsWith(BACKUPS_PREFIX) && key !== BACKUPS_PREFIX
}

/** The newest ones. A listing that lags does so for seconds. */
const KEYS_MAX = 512

/**
 * What this process has stored of cells, for listings that do not show it yet: a prune must not pass over a plan, a proof or the
 * mark of a restore that was answered, and a purge must not leave the newest version.
 */
export class OwnObjects {
  readonly #store: Pick<ObjectStore, 'head'>
  /** Oldest first. */
  readonly #keys = new Set<string>()

  constructor(store: Pick<ObjectStore, 'head'>) {
    this.#store = store
  }

  stored(key: string): void {
    // One that is stored again is the newest.
    this.#keys.delete(key)
    this.#keys.add(key)
    if (this.#keys.size <= KEYS_MAX) return
    const [oldest] = this.#keys
    this.#keys.delete(oldest as string)
  }

  removed(key: string): void {
    this.#keys.delete(key)
  }

  /** The listing with the objects that it lacks, in its order. What somebody else has removed is not added. */
  async *addTo(
    listing: AsyncIterable<ObjectEntry>,
    prefix: string,
    after: string | undefined,
    options: CallOptions,
  ): AsyncGenerator<ObjectEntry> {
    const own = this.#between(prefix, after)
    for await (const entry of listing) {
      while (own[0] !== undefined && compareKeys(own[0], entry.key) < 0)
        yield* this.#ifThere(own.shift() as string, options)
      if (own[0] === entry.key) own.shift()
      yield entry
    }
    for (const key of own) yield* this.#ifThere(key, options)
  }

  #between(prefix: string, after: string | undefined): string[] {
    const keys = [...this.#keys].filter((key) => key.startsWith(prefix))
    return keys.filter((key) => after === undefined || compareKeys(key, after) > 0).sort(compareKeys)
  }

  async *#ifThere(key: string, options: CallOptions): AsyncGenerator<ObjectEntry> {
    // Removed while the listing was read.
    if (!this.#keys.has(key)) return
    const found = await this.#store.head(key, options)
    if (found === undefined) this.removed(key)
    else yield { key, size: found.size }
  }
}
