import { LruCache } from '../base/lru-cache.ts'
import type { Catalog } from './catalog.ts'

/**
 * What was read from the catalog, kept until the catalog changes. Any change empties it, so that none can be missed:
 * changes are rare compared with reads, and reading again costs one look-up. Only what was found is kept, so that names
 * which do not exist can't fill it.
 */
export class CatalogCache<T extends object> {
  readonly #catalog: Catalog
  readonly #entries: LruCache<Readonly<T>>
  #version = 0

  /** @param max how many entries are kept; the least recently used go first */
  constructor(catalog: Catalog, max: number) {
    this.#catalog = catalog
    this.#entries = new LruCache(max)
  }

  /**
   * @param read what looks the key up in the catalog
   * @throws as {@link Catalog.assertOpen}
   */
  get(key: string, read: (key: string) => T | undefined): Readonly<T> | undefined {
    const { version } = this.#catalog
    // Inside a change only the catalog knows what holds now, and it may be rolled back.
    if (version === undefined) return this.#catalog.read(() => read(key))
    this.#catalog.assertOpen()
    if (version !== this.#version) {
      this.#entries.clear()
      this.#version = version
    }
    const known = this.#entries.get(key)
    if (known !== undefined) return known
    const found = this.#catalog.read(() => read(key))
    if (found !== undefined) this.#entries.set(key, Object.freeze(found))
    return found
  }
}
