import fs from 'node:fs'
import Database from 'better-sqlite3'
import { expect, test } from 'vitest'
import { StorePaths } from '../../src/base/files/store-paths.ts'
import { CellStore } from '../../src/store/cell-store.ts'
import { openTestStore } from '../support/open-test-store.ts'
import { rejectedBy } from '../support/thrown.ts'

/** The tables of accounts and keys as schema version 1 had them. */
const VERSION_1 = `
  CREATE TABLE old_accounts (id TEXT NOT NULL PRIMARY KEY, name TEXT, created_at INTEGER NOT NULL) STRICT, WITHOUT ROWID;
  INSERT INTO old_accounts SELECT id, name, created_at FROM accounts;
  DROP TABLE accounts;
  ALTER TABLE old_accounts RENAME TO accounts;
  CREATE TABLE old_keys (
    number INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    account_id TEXT NOT NULL,
    name TEXT,
    hint TEXT NOT NULL,
    hash BLOB NOT NULL UNIQUE,
    created_at INTEGER NOT NULL,
    last_used_at INTEGER,
    revoked_at INTEGER
  ) STRICT;
  INSERT INTO old_keys
    SELECT number, id, account_id, name, hint, hash, created_at, last_used_at, revoked_at FROM api_keys;
  DROP TABLE api_keys;
  ALTER TABLE old_keys RENAME TO api_keys;
  CREATE INDEX api_keys_by_account ON api_keys (account_id, number);
  UPDATE meta SET value = '1' WHERE key = 'schema_version';
`

const FULL = { access: 'write', surface: 'all', cellIds: null, expiresAt: null }

function inCatalog<T>(directory: string, act: (connection: Database.Database) => T): T {
  const connection = new Database(new StorePaths(directory).catalog)
  try {
    return act(connection)
  } finally {
    connection.close()
  }
}

const schemaOf = (directory: string) =>
  inCatalog(directory, (connection) =>
    ['accounts', 'api_keys'].map((table) => connection.prepare(`PRAGMA table_info(${table})`).all()),
  )

test('a catalog of schema version 1 is upgraded at the start: its keys may do what they could', async () => {
  const { store, directory } = await openTestStore()
  const account = store.accounts.create({ name: 'old' })
  const [kept, revoked] = [store.apiKeys.create(account.id), store.apiKeys.create(account.id)]
  store.apiKeys.revoke(account.id, revoked.id)
  await store.close()
  const isNew = schemaOf(directory)
  inCatalog(directory, (connection) => connection.exec(VERSION_1))
  for (const _ of ['the upgrade', 'the start after it']) {
    const upgraded = await CellStore.open(directory)
    expect(upgraded.accounts.list()).toEqual([account])
    expect(upgraded.apiKeys.verify(kept.key).scope).toEqual(FULL)
    expect(() => upgraded.apiKeys.verify(revoked.key)).toThrow('not valid')
    upgraded.accounts.suspend(account.id)
    upgraded.accounts.resume(account.id)
    const { key, id } = upgraded.apiKeys.create(account.id, { access: 'read' })
    expect(upgraded.apiKeys.verify(key).scope.access).toBe('read')
    upgraded.apiKeys.revoke(account.id, id)
    await upgraded.close()
  }
  expect(schemaOf(directory)).toEqual(isNew)
})

test('a catalog of a later schema version is refused, with both versions, and is not touched', async () => {
  const { store, directory } = await openTestStore()
  await store.close()
  inCatalog(directory, (connection) =>
    connection.exec("UPDATE meta SET value = '3' WHERE key = 'schema_version'"),
  )
  const { catalog } = new StorePaths(directory)
  const before = fs.readFileSync(catalog)
  const refused = await rejectedBy(CellStore.open(directory))
  expect(refused).toMatchObject({ code: 'cell_quarantined' })
  expect(refused.message).toContain('Its schema version is 3; this version of cellstore knows up to 2.')
  expect(fs.readFileSync(catalog)).toEqual(before)
})
