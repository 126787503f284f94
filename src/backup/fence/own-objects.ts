import { compareKeys } from '../object-store/object-key-rules.ts'
import type { CallOptions, ObjectEntry, ObjectStore } from '../object-store/object-store.ts'

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
