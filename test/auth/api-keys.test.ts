import { randomBytes } from 'node:crypto'
import fs from 'node:fs'
import path from 'node:path'
import Database from 'better-sqlite3'
import { describe, expect, test } from 'vitest'
import { hashApiKey, makeApiKey } from '../../src/auth/api-key.ts'
import { StorePaths } from '../../src/base/files/store-paths.ts'
import { TEST_EPOCH_MS } from '../support/fake-clock.ts'
import { openTestStore } from '../support/open-test-store.ts'
import { filesBelow } from '../support/temp-directory.ts'
import { codeOf, thrownBy } from '../support/thrown.ts'

async function openKeys() {
  const test = await openTestStore()
  const account = test.store.accounts.create().id
  return { ...test, test, store: test.store, clock: test.clock, keys: test.store.apiKeys, account }
}

describe('create', () => {
  test('gives the key once, with an id, a hint and the time', async () => {
    const { keys, account } = await openKeys()
    const created = keys.create(account, { name: 'ci' })
    expect(created).toEqual({
      id: expect.stringMatching(/^[0-9a-f-]{36}$/),
      name: 'ci',
      hint: created.key.slice(0, 12),
      key: expect.stringMatching(/^cell_sk_[0-9A-Za-z]{49}$/),
      createdAt: TEST_EPOCH_MS,
      access: 'write',
      cellIds: null,
      surface: 'all',
      expiresAt: null,
    })
    expect(keys.create(account).name).toBeNull()
    expect(JSON.stringify(keys.list(account))).not.toContain(created.key)
  })

  test('takes a key that was made elsewhere, if it is one', async () => {
    const { keys, account } = await openKeys()
    const key = makeApiKey(randomBytes)
    expect(keys.create(account, { key }).key).toBe(key)
    expect(keys.verify(key).accountId).toBe(account)
    for (const bad of [
      '',
      'cell_sk_x',
      `${key.slice(0, -1)}${key.endsWith('0') ? '1' : '0'}`,
      `${key} `,
      key.toLowerCase(),
    ]) {
      const error = thrownBy(() => keys.create(account, { key: bad }))
      expect(error).toMatchObject({ code: 'invalid_request', details: { field: 'key' } })
      if (bad !== '') expect(error.message).not.toContain(bad)
    }
  })

  test('refuses a key that is somebody’s already', async () => {
    const { keys, account, store } = await openKeys()
    const { key } = keys.create(account)
    const other = store.accounts.create().id
    expect(codeOf(() => keys.create(other, { key }))).toBe('constraint_violation')
    expect(keys.verify(key).accountId).toBe(account)
  })

  test('refuses a name that nobody could read', async () => {
    const { keys, account } = await openKeys()
    for (const name of ['x'.repeat(256), '\ud800', 7, null]) {
      expect(thrownBy(() => keys.create(account, { name: name as string }))).toMatchObject({
        code: 'invalid_request',
        details: { field: 'name' },
      })
    }
    expect(keys.list(account)).toEqual([])
  })
})

describe('list', () => {
  test('has the account’s own active keys, newest first, even if the clock steps back', async () => {
    const { keys, account, store, clock } = await openKeys()
    const other = store.accounts.create().id
    const made = Array.from({ length: 5 }, (_, i) => {
      clock.step(-1_000)
      return keys.create(account, { name: `key ${i}` }).id
    })
    keys.create(other)
    keys.revoke(account, made[2] as string)
    expect(keys.list(account).map(({ id }) => id)).toEqual([made[4], made[3], made[1], made[0]])
    expect(keys.list(other)).toHaveLength(1)
    expect(keys.list('none')).toEqual([])
  })
})

describe('verify', () => {
  test('says whose key it is, each key its own account’s', async () => {
    const { keys, account, store } = await openKeys()
    const other = store.accounts.create().id
    const [a, b] = [keys.create(account), keys.create(other)]
    expect(keys.verify(a.key)).toMatchObject({ keyId: a.id, accountId: account })
    expect(keys.verify(b.key)).toMatchObject({ keyId: b.id, accountId: other })
  })

  test('refuses every other text alike: malformed, unknown, revoked', async () => {
    const { keys, account } = await openKeys()
    const revoked = keys.create(account)
    keys.revoke(account, revoked.id)
    const texts = [
      '',
      'x',
      'cell_sk_',
      makeApiKey(randomBytes),
      revoked.key,
      `${revoked.key}x`,
      ` ${revoked.key}`,
    ]
    const errors = texts.map((text) => thrownBy(() => keys.verify(text)))
    expect(new Set(errors.map(({ code, message }) => `${code} ${message}`)).size).toBe(1)
    expect(errors[0]?.code).toBe('unauthorized')
  })

  test('works after a restart', async () => {
    const { keys, account, test } = await openKeys()
    const { key, id } = keys.create(account)
    await test.reopen()
    expect(test.store.apiKeys.verify(key)).toMatchObject({ keyId: id, accountId: account })
  })
})

describe('revoke', () => {
  test('refuses the key from the very next request on, here and after a restart', async () => {
    const { keys, account, clock, test } = await openKeys()
    const [revoked, other] = [keys.create(account), keys.create(account)]
    keys.verify(revoked.key)
    clock.step(5)
    expect(keys.revoke(account, revoked.id)).toEqual({ id: revoked.id, revokedAt: TEST_EPOCH_MS + 5 })
    expect(codeOf(() => keys.verify(revoked.key))).toBe('unauthorized')
    keys.verify(other.key)
    await test.reopen()
    expect(codeOf(() => test.store.apiKeys.verify(revoked.key))).toBe('unauthorized')
    test.store.apiKeys.verify(other.key)
  })

  test('a second time answers the same', async () => {
    const { keys, account, clock } = await openKeys()
    const { id } = keys.create(account)
    const first = keys.revoke(account, id)
    clock.step(1_000)
    expect(keys.revoke(account, id)).toEqual(first)
  })

  test('of another account’s key, or of none, is api_key_not_found and changes nothing', async () => {
    const { keys, account, store } = await openKeys()
    const other = store.accounts.create().id
    const { key, id } = keys.create(account)
    for (const [accountId, keyId] of [
      [other, id],
      [account, 'none'],
      [account, ''],
      ['none', id],
    ] as const) {
      expect(codeOf(() => keys.revoke(accountId, keyId))).toBe('api_key_not_found')
    }
    keys.verify(key)
  })
})

describe('no plaintext key outside the one response (invariant 12)', () => {
  test('no file of the store holds one, nor its secret part: not while open, not in a log, not when closed', async () => {
    const { keys, account, store, directory } = await openKeys().then((all) => ({
      ...all,
      directory: all.test.directory,
    }))
    const made = Array.from({ length: 20 }, () => keys.create(account, { name: 'n' }))
    for (const { key } of made) keys.verify(key)
    keys.revoke(account, made[0]?.id as string)
    keys.flush()
    const holds = () => {
      const found: string[] = []
      for (const file of filesBelow(directory)) {
        // The shared-memory file is SQLite's own index of the log; opening it here would drop its locks (invariant 4).
        if (file.endsWith('-shm') || file.endsWith('.db')) continue
        const bytes = fs.readFileSync(path.join(directory, file))
        for (const { key } of made)
          if (bytes.includes(key) || bytes.includes(key.slice(12, 40))) found.push(file)
      }
      return found
    }
    expect(filesBelow(directory)).toContain('catalog.db-wal')
    expect(fs.statSync(path.join(directory, 'catalog.db-wal')).size).toBeGreaterThan(10_000)
    expect(holds()).toEqual([])
    await store.close()
    for (const file of filesBelow(directory)) {
      const bytes = fs.readFileSync(path.join(directory, file))
      for (const { key } of made)
        expect([file, bytes.includes(key), bytes.includes(key.slice(12, 40))]).toEqual([file, false, false])
    }
  })

  test('what is kept is the SHA-256', async () => {
    const { keys, account, test } = await openKeys()
    const { key } = keys.create(account)
    await test.store.close()
    const connection = new Database(new StorePaths(test.directory).catalog)
    expect(connection.prepare('SELECT hash FROM api_keys').pluck().all()).toEqual([
      Buffer.from(hashApiKey(key), 'hex'),
    ])
    connection.close()
  })
})

describe('lastUsedAt', () => {
  test('is null before the first use, and then the time of one, exact to a minute', async () => {
    const { keys, account, clock } = await openKeys()
    const { key } = keys.create(account)
    expect(keys.list(account)[0]?.lastUsedAt).toBeNull()
    clock.advance(1_000)
    keys.verify(key)
    const first = clock.now()
    expect(keys.list(account)[0]?.lastUsedAt).toBe(first)
    clock.advance(59_999)
    keys.verify(key)
    expect(keys.list(account)[0]?.lastUsedAt).toBe(first)
    clock.advance(1)
    keys.verify(key)
    expect(keys.list(account)[0]?.lastUsedAt).toBe(first + 60_000)
  })

  test('is written at most once a minute, however often a key is used', async () => {
    const { keys, account, clock, test } = await openKeys()
    const used = [keys.create(account), keys.create(account)]
    const writes = () => {
      const wal = new StorePaths(test.directory).catalogCell.wal
      return fs.statSync(wal).size
    }
    const before = writes()
    for (let i = 0; i < 1_000; i++) for (const { key } of used) keys.verify(key)
    expect(writes()).toBe(before)
    clock.advance(60_000)
    const after = writes()
    expect(after).toBeGreaterThan(before)
    for (let i = 0; i < 100; i++) for (const { key } of used) keys.verify(key)
    clock.advance(59_999)
    expect(writes()).toBe(after)
    clock.advance(1)
    expect(writes()).toBeGreaterThan(after)
    clock.advance(600_000)
  })

  test('is no change of the catalog: it causes no backup', async () => {
    const { keys, account, clock, test } = await openKeys()
    const { key } = keys.create(account)
    const changes = () => {
      const connection = new Database(new StorePaths(test.directory).catalog, { readonly: true })
      const value = connection.prepare("SELECT value FROM meta WHERE key = 'changes'").pluck().get()
      connection.close()
      return value
    }
    const before = changes()
    keys.verify(key)
    clock.advance(60_000)
    expect(changes()).toBe(before)
    keys.create(account)
    expect(changes()).not.toBe(before)
  })

  test('is written down when the store closes', async () => {
    const { keys, account, clock, test } = await openKeys()
    keys.verify(keys.create(account).key)
    const at = clock.now()
    await test.reopen()
    expect(test.store.apiKeys.list(account)[0]?.lastUsedAt).toBe(at)
  })

  test('that cannot be written now is written a minute later, and nothing else notices', async () => {
    const { keys, account, clock, test } = await openKeys()
    const { key } = keys.create(account)
    keys.verify(key)
    const foreign = new Database(new StorePaths(test.directory).catalog)
    foreign.exec('BEGIN IMMEDIATE')
    expect(() => clock.advance(60_000)).not.toThrow()
    keys.verify(key)
    foreign.exec('ROLLBACK')
    foreign.close()
    clock.advance(60_000)
    await test.reopen()
    expect(test.store.apiKeys.list(account)[0]?.lastUsedAt).toBe(TEST_EPOCH_MS)
  })
})

describe('accounts', () => {
  test('are listed oldest first, and found by their id', async () => {
    const { store, clock } = await openTestStore()
    const made = ['a', undefined, 'c'].map((name) => {
      clock.step(1_000)
      return store.accounts.create({ name })
    })
    expect(store.accounts.list()).toEqual(made)
    expect(made.map(({ name }) => name)).toEqual(['a', null, 'c'])
    expect(store.accounts.find(made[1]?.id as string)).toEqual(made[1])
    expect(store.accounts.find('none')).toBeUndefined()
  })

  test('take a readable name', async () => {
    const { store } = await openTestStore()
    expect(codeOf(() => store.accounts.create({ name: 'x'.repeat(256) }))).toBe('invalid_request')
    expect(store.accounts.list()).toEqual([])
  })
})
