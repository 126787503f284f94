import { randomUUID } from 'node:crypto'
import type { Clock } from '../base/clock.ts'
import { checkDisplayName } from '../base/display-name.ts'
import { checkNames, type Known } from '../base/known-names.ts'
import type { Catalog } from '../catalog/catalog.ts'
import type { Statement } from '../engine/sqlite.ts'

/** An account: the owner of cells and API keys. */
export interface AccountRecord {
  id: string
  /** For people; null if it has none. */
  name: string | null
  /** Epoch milliseconds. */
  createdAt: number
}

export const ACCOUNTS_SCHEMA = `
  CREATE TABLE accounts (id TEXT NOT NULL PRIMARY KEY, name TEXT, created_at INTEGER NOT NULL) STRICT, WITHOUT ROWID;
`

type CreateOptions = NonNullable<Parameters<Accounts['create']>[0]>
const CREATE_NAMES: Known<CreateOptions> = { name: true }

/** Cells and API keys belong to accounts. An account never sees what belongs to another one. */
export class Accounts {
  readonly #catalog: Catalog
  readonly #clock: Clock
  readonly #insert: Statement
  readonly #find: Statement
  readonly #all: Statement

  /** @internal Comes with a store, as `store.accounts`. */
  constructor(catalog: Catalog, clock: Clock) {
    this.#catalog = catalog
    this.#clock = clock
    this.#insert = catalog.prepare('INSERT INTO accounts VALUES (?, ?, ?)')
    this.#find = catalog.prepare('SELECT id, name, created_at FROM accounts WHERE id = ?').raw()
    this.#all = catalog.prepare('SELECT id, name, created_at FROM accounts ORDER BY created_at, id').raw()
  }

  /**
   * Makes an account; it is on disk when this returns.
   *
   * @param options.name for people, at most 255 characters; need not be unique
   * @throws `invalid_request` for a bad name, `disk_full`, `store_closed`
   */
  create(options: { name?: string | undefined } = {}): AccountRecord {
    checkNames(options, CREATE_NAMES)
    const { name } = options
    checkDisplayName(name)
    const account = { id: randomUUID(), name: name ?? null, createdAt: this.#clock.now() }
    this.#catalog.change(() => this.#insert.run(account.id, account.name, account.createdAt))
    return account
  }

  /** @returns undefined if there is no such account */
  find(id: string): AccountRecord | undefined {
    const row = this.#catalog.read(() => this.#find.get(id)) as [string, string | null, number] | undefined
    return row && toRecord(row)
  }

  /** All accounts, oldest first. */
  list(): AccountRecord[] {
    return (this.#catalog.read(() => this.#all.all()) as [string, string | null, number][]).map(toRecord)
  }
}

function toRecord([id, name, createdAt]: [string, string | null, number]): AccountRecord {
  return { id, name, createdAt }
}
