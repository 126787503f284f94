import { randomUUID } from 'node:crypto'
import type { Clock } from '../base/clock.ts'
import { checkDisplayName } from '../base/display-name.ts'
import type { Catalog } from '../catalog/catalog.ts'
import type { Statement } from '../engine/sqlite.ts'

export interface AccountRecord {
  id: string
  name: string | null
  /** Epoch milliseconds. */
  createdAt: number
}

export const ACCOUNTS_SCHEMA = `
  CREATE TABLE accounts (id TEXT NOT NULL PRIMARY KEY, name TEXT, created_at INTEGER NOT NULL) STRICT, WITHOUT ROWID;
`

/** The owners of cells and keys. No account sees what belongs to another. */
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

  /** @throws `invalid_request` for a bad name */
  create({ name }: { name?: string | undefined } = {}): AccountRecord {
    checkDisplayName(name)
    const account = { id: randomUUID(), name: name ?? null, createdAt: this.#clock.now() }
    this.#catalog.change(() => this.#insert.run(account.id, account.name, account.createdAt))
    return account
  }

  find(id: string): AccountRecord | undefined {
    const row = this.#catalog.read(() => this.#find.get(id)) as [string, string | null, number] | undefined
    return row && toRecord(row)
  }

  /** Oldest first. */
  list(): AccountRecord[] {
    return (this.#catalog.read(() => this.#all.all()) as [string, string | null, number][]).map(toRecord)
  }
}

function toRecord([id, name, createdAt]: [string, string | null, number]): AccountRecord {
  return { id, name, createdAt }
}
