import type { Catalog } from '../catalog/catalog.ts'
import { CellError } from '../errors.ts'
import type { Accounts } from './accounts.ts'
import type { ApiKeys, CreatedApiKey } from './api-keys.ts'

const META_KEY = 'first_key'
const PENDING = 'pending'

/** What a new catalog says where a first key is due: on a proven first start only (invariant 14). */
export const FIRST_KEY_PENDING = { [META_KEY]: PENDING } as const

/**
 * The first key of a store that is served: made once, shown once. Nobody can have used the store before it was shown,
 * so a start that was cut off in between makes another and revokes the one that nobody saw.
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
   * @param rootKey taken in place of a new key
   * @throws `invalid_request` if it is malformed, and where no first key is due: the keys of the first account would go
   */
  issue(rootKey?: string): CreatedApiKey {
    if (!this.pending) throw new CellError('invalid_request', 'The store has its first key already.')
    return this.#catalog.change(() => {
      const account = this.#accounts.list()[0] ?? this.#accounts.create()
      this.#keys.removeAll(account.id)
      return this.#keys.create(account.id, { name: 'first key', key: rootKey })
    })
  }

  /** From here on it is somebody's, and stays. */
  shown(): void {
    this.#catalog.setMeta(META_KEY, 'shown')
  }
}
