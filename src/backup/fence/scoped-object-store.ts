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
import { cellPrefix, isOfNode } from '../versions/object-keys.ts'

/**
 * One node's view of an object store that it shares: its fence, its records, its log and the versions of its catalog lie under a
 * prefix of its own. All other objects lie where those of a single node do.
 */
class ScopedObjectStore implements ObjectStore {
  readonly #store: ObjectStore
  readonly #prefix: string
  readonly #storeId: () => string | undefined

  /**
   * @param prefix `nodes/<id>/`
   * @param storeId under which catalogs are stored; undefined as long as nobody knows it
   */
  constructor(store: ObjectStore, prefix: string, storeId: () => string | undefined) {
    this.#store = store
    this.#prefix = prefix
    this.#storeId = storeId
  }

  get url(): string {
    return this.#store.url
  }

  put(key: string, body: ObjectBody, options?: TransferOptions): Promise<void> {
    return this.#store.put(this.#outer(key), body, options)
  }

  get(key: string, options?: GetOptions): Promise<ObjectContent | undefined> {
    return this.#store.get(this.#outer(key), options)
  }

  head(key: string, options?: CallOptions): Promise<{ size: number } | undefined> {
    return this.#store.head(this.#outer(key), options)
  }

  async *list(prefix: string, options: ListOptions = {}): AsyncGenerator<ObjectEntry> {
    const outer = this.#outer(prefix)
    const isScoped = outer !== prefix
    const after = options.after && isScoped ? this.#prefix + options.after : options.after
    const catalogs = this.#catalogs
    for await (const entry of this.#store.list(outer, { ...options, after })) {
      if (isScoped) yield { ...entry, key: entry.key.slice(this.#prefix.length) }
      // That of a node without a prefix.
      else if (catalogs === undefined || !entry.key.startsWith(catalogs)) yield entry
    }
  }

  delete(key: string, options?: CallOptions): Promise<void> {
    return this.#store.delete(this.#outer(key), options)
  }

  sweepUploads(prefix: string, olderThanMs: number, options: SweepOptions = {}): Promise<number> {
    const outer = this.#outer(prefix)
    if (outer === prefix) return this.#store.sweepUploads(prefix, olderThanMs, options)
    const { owns } = options
    const ownsOuter = owns && ((key: string) => owns(key.slice(this.#prefix.length)))
    return this.#store.sweepUploads(outer, olderThanMs, { ...options, owns: ownsOuter })
  }

  async createsOnlyOnce(options?: CallOptions): Promise<boolean> {
    return (await this.#store.createsOnlyOnce?.(options)) ?? true
  }

  close(): Promise<void> {
    return this.#store.close()
  }

  /** Where a catalog lies by the keys of a single node. */
  get #catalogs(): string | undefined {
    const storeId = this.#storeId()
    return storeId === undefined ? undefined : cellPrefix(storeId)
  }

  #outer(key: string): string {
    const catalogs = this.#catalogs
    const isOwn = isOfNode(key) || (catalogs !== undefined && key.startsWith(catalogs))
    return isOwn ? this.#prefix + key : key
  }
}

/** The store of a node's own objects. @param prefix empty: it is as the store of a single node */
export function scopedTo(store: ObjectStore, prefix: string, storeId: () => string | undefined): ObjectStore {
  return prefix === '' ? store : new ScopedObjectStore(store, prefix, storeId)
}
