import type { Catalog } from '../catalog/catalog.ts'
import { CellError } from '../errors.ts'
import type { Accounts } from './accounts.ts'
import type { CreatedApiKey } from './api-key-records.ts'
import type { ApiKeys } from './api-keys.ts'

const META_KEY = 'first_key'
const PENDING = 'pending'

/** The mark in a new catalog that a first key is due: only on a proven first start (invariant 14). */
export const FIRST_KEY_PENDING = { [META_KEY]: PENDING } as const

/**
 * The first key of a served store: made once, shown once. Nobody can have used the store before the key was shown, so a
 * start after an interrupted one makes another key and revokes the one that nobody saw.
 */
export class FirstKey {
  readonly #catalog: Catalog
  readonly #accounts: Accounts
  readonly #keys: ApiKeys

  /** @internal Comes with a store, as `store.firstKey`. */
  constructor(catalog: Catalog, accounts: Accounts, keys: ApiKeys) {
    this.#catalog = catalog
    this.#accounts = accounts
    this.#keys = keys
  }

  get pending(): boolean {
    return this.#catalog.meta(META_KEY) === PENDING
  }

  /**
   * Makes the first account, and a key of it.
   *
   * @param rootKey used instead of a new key
   * @throws `invalid_request` if it is malformed, or if no first key is due: the keys of the first account would go
   */
  issue(rootKey?: string): CreatedApiKey {
    if (!this.pending) throw new CellError('invalid_request', 'The store already has its first key.')
    return this.#catalog.change(() => {
      const account = this.#accounts.list()[0] ?? this.#accounts.create()
      this.#keys.removeAll(account.id)
      return this.#keys.create(account.id, { name: 'first key', key: rootKey })
    })
  }

  /** The key was shown: from here on it is in use and stays. */
  shown(): void {
    this.#catalog.setMeta(META_KEY, 'shown')
  }
}
