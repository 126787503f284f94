import { type Client, createClient, LibsqlError } from '@libsql/client'
import { beforeEach, describe, expect, onTestFinished, test } from 'vitest'
import { type HranaCell, newCell, PLACES, serveCell } from '../../support/http/hrana-cell.ts'

/** `@libsql/client` as its documentation uses it: each method, and each error, against a node that serves. */
describe.each(PLACES)('@libsql/client, with the cells %s', (_place, workers) => {
  let cell: HranaCell
  let client: Client
  beforeEach(async () => {
    cell = await serveCell(workers)
    client = createClient({ url: cell.url, authToken: cell.key })
  })

  async function failure(promise: Promise<unknown>): Promise<{ code: string; message: string }> {
    const error = await promise.then(
      () => undefined,
      (error: unknown) => error,
    )
    if (!(error instanceof LibsqlError)) throw new Error(`It did not fail as expected: ${String(error)}`)
    return { code: error.code, message: error.message }
  }

  async function table(): Promise<void> {
    await client.execute('CREATE TABLE users (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, email TEXT)')
  }

  const names = async () =>
    (await client.execute('SELECT name FROM users ORDER BY id')).rows.map((row) => row['name'])

  test('execute() gives columns with their types, rows, and what was changed', async () => {
    await table()
    const inserted = await client.execute({
      sql: 'INSERT INTO users (name, email) VALUES (?, ?)',
      args: ['Ann', null],
    })
    expect(inserted).toMatchObject({ rowsAffected: 1, lastInsertRowid: 1n, rows: [] })
    const found = await client.execute({
      sql: 'SELECT id, name, email, 1 AS id FROM users WHERE name = :name',
      args: { name: 'Ann' },
    })
    expect(found.columns).toEqual(['id', 'name', 'email', 'id'])
    expect(found.columnTypes).toEqual(['INTEGER', 'TEXT', 'TEXT', ''])
    expect(found.rows.map((row) => Array.from(row as unknown as ArrayLike<unknown>))).toEqual([
      [1, 'Ann', null, 1],
    ])
    expect(found).toMatchObject({ rowsAffected: 0, lastInsertRowid: undefined })
    expect((await client.execute("UPDATE users SET email = 'a@x'")).rowsAffected).toBe(1)
    expect((await client.execute('DELETE FROM users RETURNING id')).rows).toMatchObject([{ id: 1 }])
  })

  test('values come back as they were sent, and every number as a REAL', async () => {
    const blob = new Uint8Array([0, 1, 254, 255]).buffer
    const sent = ['text \u0001 "ü" 🌲', '', 1.5, 5, 10n, null, blob, true, new Date(86_400_000)]
    const { rows } = await client.execute({
      sql: `SELECT ${sent.map(() => '?').join(', ')}`,
      args: sent,
    })
    expect(Array.from(rows[0] as unknown as ArrayLike<unknown>)).toEqual([
      ...sent.slice(0, 4),
      10,
      null,
      blob,
      1,
      86_400_000,
    ])
    const typed = await client.execute({
      sql: 'SELECT typeof(?) AS a, typeof(?) AS b, 9e999 AS c, -9e999 AS d',
      args: [5, 5n],
    })
    expect(typed.rows).toMatchObject([{ a: 'real', b: 'integer', c: Infinity, d: -Infinity }])
    const big = createClient({ url: cell.url, authToken: cell.key, intMode: 'bigint' })
    expect((await big.execute('SELECT 9223372036854775807 AS n')).rows).toMatchObject([{ n: 2n ** 63n - 1n }])
  })

  test('names, numbers and plain placeholders are bound as SQLite numbers them', async () => {
    const bind = async (sql: string, args: Parameters<Client['execute']>[1]) =>
      Array.from((await client.execute({ sql, args: args ?? [] })).rows[0] as unknown as ArrayLike<unknown>)
    expect(await bind('SELECT :b, :a, ?1', { a: 'one', ':b': 'two' })).toEqual(['two', 'one', 'two'])
    expect(await bind('SELECT $b, @a', { $b: 'two', '@a': 'one' })).toEqual(['two', 'one'])
    expect(await bind('SELECT ?3, ?1', ['one', 'two', 'three'])).toEqual(['three', 'one'])
    expect(await bind('SELECT ?, :n, ?', ['one', 'two', 'three'])).toEqual(['one', 'two', 'three'])
    expect(await bind("SELECT ':no', ?", ['one'])).toEqual([':no', 'one'])
    expect((await failure(bind('SELECT ?, ?', ['one']))).code).toBe('ARGS_INVALID')
    expect((await failure(bind('SELECT ?', ['one', 'two']))).code).toBe('ARGS_INVALID')
    expect((await failure(bind('SELECT :a', { b: 'one' }))).code).toBe('ARGS_INVALID')
  })

  test('batch() is all or none, in each mode, and says which statement failed', async () => {
    await table()
    const add = (name: string) => ({ sql: 'INSERT INTO users (name) VALUES (?)', args: [name] })
    const results = await client.batch([add('Ann'), 'SELECT count(*) AS n FROM users', add('Bob')], 'write')
    expect(results.map(({ rows }) => rows)).toMatchObject([[], [{ n: 1 }], []])
    const refused = client.batch([add('Cid'), add('Ann'), add('Dan')], 'deferred')
    await expect(refused).rejects.toMatchObject({ code: 'SQLITE_CONSTRAINT', statementIndex: 1 })
    const read = await client.batch(['SELECT 1 AS n', 'SELECT 2 AS n'], 'read')
    expect(read.map(({ rows }) => rows[0])).toMatchObject([{ n: 1 }, { n: 2 }])
    expect((await failure(client.batch([add('Eve')], 'read'))).code).toBe('SQLITE_READONLY')
    expect(await names()).toEqual(['Ann', 'Bob'])
  })

  test('a batch may have thousands of statements', async () => {
    await table()
    const statements = Array.from({ length: 4_000 }, (_, i) => ({
      sql: 'INSERT INTO users (name) VALUES (?)',
      args: [`user ${i}`],
    }))
    await client.batch(statements, 'write')
    expect((await client.execute('SELECT count(*) AS n FROM users')).rows).toMatchObject([{ n: 4_000 }])
  })

  test('migrate() rebuilds a table to which others refer, and loses no row of them', async () => {
    await client.executeMultiple(`
      CREATE TABLE parent (id INTEGER PRIMARY KEY, name TEXT);
      CREATE TABLE child (id INTEGER PRIMARY KEY, parent_id INTEGER REFERENCES parent(id) ON DELETE CASCADE);
      INSERT INTO parent VALUES (1, 'p');
      INSERT INTO child VALUES (1, 1);
    `)
    await client.migrate([
      'PRAGMA foreign_keys=OFF',
      'CREATE TABLE new_parent (id INTEGER PRIMARY KEY, name TEXT NOT NULL)',
      'INSERT INTO new_parent SELECT * FROM parent',
      'DROP TABLE parent',
      'ALTER TABLE new_parent RENAME TO parent',
      'PRAGMA foreign_keys=ON',
    ])
    expect((await client.execute('SELECT count(*) AS n FROM child')).rows).toMatchObject([{ n: 1 }])
    // They are on again.
    expect((await failure(client.execute('INSERT INTO child VALUES (2, 99)'))).code).toBe('SQLITE_CONSTRAINT')
    expect((await client.execute('PRAGMA foreign_keys')).rows).toMatchObject([{ foreign_keys: 1 }])
  })

  test('a migration that fails leaves nothing, and foreign keys are on again', async () => {
    await table()
    await client.execute('CREATE TABLE posts (user_id INTEGER REFERENCES users(id))')
    const refused = client.migrate(['DROP TABLE users', 'CREATE TABLE broken ('])
    expect((await failure(refused)).code).toBe('SQLITE_ERROR')
    expect((await failure(client.execute('INSERT INTO posts VALUES (5)'))).code).toBe('SQLITE_CONSTRAINT')
    expect(await names()).toEqual([])
  })

  test('executeMultiple() keeps what ran before an error, and rolls back a BEGIN that it left open', async () => {
    await client.executeMultiple(`
      CREATE TABLE users (id INTEGER PRIMARY KEY, name TEXT UNIQUE); -- a comment; with a semicolon
      INSERT INTO users (name) VALUES ('Ann; or not');
    `)
    const refused = client.executeMultiple(`
      INSERT INTO users (name) VALUES ('Bob');
      INSERT INTO users (name) VALUES ('Bob');
      INSERT INTO users (name) VALUES ('Cid');
    `)
    expect((await failure(refused)).code).toBe('SQLITE_CONSTRAINT')
    expect(await names()).toEqual(['Ann; or not', 'Bob'])
    const inBegin = client.executeMultiple(
      "BEGIN; INSERT INTO users (name) VALUES ('Dan'); SELECT nothing; COMMIT",
    )
    expect((await failure(inBegin)).code).toBe('SQLITE_ERROR')
    await client.executeMultiple("BEGIN; INSERT INTO users (name) VALUES ('Eve'); COMMIT;")
    expect(await names()).toEqual(['Ann; or not', 'Bob', 'Eve'])
  })

  test('savepoints are undone and kept one by one', async () => {
    await table()
    await client.executeMultiple(`
      BEGIN;
      INSERT INTO users (name) VALUES ('Ann');
      SAVEPOINT one;
      INSERT INTO users (name) VALUES ('Bob');
      SAVEPOINT two;
      INSERT INTO users (name) VALUES ('Cid');
      ROLLBACK TO two;
      INSERT INTO users (name) VALUES ('Dan');
      RELEASE SAVEPOINT one;
      SAVEPOINT "Three";
      INSERT INTO users (name) VALUES ('Eve');
      ROLLBACK TRANSACTION TO SAVEPOINT three;
      END TRANSACTION;
      SAVEPOINT alone;
      INSERT INTO users (name) VALUES ('Fay');
      RELEASE alone;
    `)
    expect(await names()).toEqual(['Ann', 'Bob', 'Dan', 'Fay'])
    const unknown = await failure(client.executeMultiple('BEGIN; RELEASE nowhere'))
    expect(unknown).toEqual({ code: 'SQLITE_ERROR', message: 'SQLITE_ERROR: no such savepoint: nowhere' })
  })

  test('transaction() keeps its changes to itself until commit(), and rollback() and close() undo them', async () => {
    await table()
    const add = (name: string) => ({ sql: 'INSERT INTO users (name) VALUES (?)', args: [name] })
    const transaction = await client.transaction('write')
    await transaction.execute(add('Ann'))
    await transaction.batch([add('Bob'), add('Cid')])
    await transaction.executeMultiple("UPDATE users SET email = 'x'; DELETE FROM users WHERE name = 'Cid'")
    // Beside it, another one reads what is committed, and is not held up.
    expect(await names()).toEqual([])
    expect((await transaction.execute('SELECT count(*) AS n FROM users')).rows).toMatchObject([{ n: 2 }])
    await transaction.commit()
    expect(await names()).toEqual(['Ann', 'Bob'])
    expect(transaction.closed).toBe(true)
    expect((await failure(transaction.execute('SELECT 1'))).code).toBe('TRANSACTION_CLOSED')
    for (const end of ['rollback', 'close'] as const) {
      const undone = await client.transaction('deferred')
      await undone.execute(add('Dan'))
      await undone[end]()
      expect(undone.closed).toBe(true)
    }
    // It waits for the end of the one before.
    await client.execute(add('Eve'))
    expect(await names()).toEqual(['Ann', 'Bob', 'Eve'])
  })

  test('an error in a transaction undoes its own statement alone, and savepoints work across requests', async () => {
    await table()
    const transaction = await client.transaction('write')
    await transaction.execute("INSERT INTO users (name) VALUES ('Ann')")
    await transaction.execute('SAVEPOINT sp')
    await transaction.execute("INSERT INTO users (name) VALUES ('Bob')")
    await transaction.execute('ROLLBACK TO sp')
    await transaction.execute('RELEASE sp')
    expect((await failure(transaction.execute("INSERT INTO users (name) VALUES ('Ann')"))).code).toBe(
      'SQLITE_CONSTRAINT',
    )
    expect((await failure(transaction.execute('BEGIN'))).code).toBe('SQLITE_ERROR')
    await transaction.commit()
    expect(await names()).toEqual(['Ann'])
  })

  test('a transaction for reading sees one state, changes nothing, and holds nobody up', async () => {
    await table()
    const reading = await client.transaction('read')
    const count = async () => (await reading.execute('SELECT count(*) AS n FROM users')).rows[0]?.['n']
    expect(await count()).toBe(0)
    await client.execute("INSERT INTO users (name) VALUES ('Ann')")
    expect(await count()).toBe(0)
    expect((await failure(reading.execute("INSERT INTO users (name) VALUES ('Bob')"))).code).toBe(
      'SQLITE_READONLY',
    )
    await reading.commit()
    expect(await names()).toEqual(['Ann'])
  })

  test('errors have the codes of SQLite and of the protocol', async () => {
    await table()
    const code = async (sql: string) => (await failure(client.execute(sql))).code
    expect(await code('SELECT foo')).toBe('SQLITE_ERROR')
    expect(await code('INSERT INTO users (name) VALUES (NULL)')).toBe('SQLITE_CONSTRAINT')
    expect(await code('SELECT 1; SELECT 2')).toBe('SQL_MANY_STATEMENTS')
    expect(await code('-- nothing')).toBe('SQL_NO_STATEMENT')
    expect(await code("ATTACH 'x' AS y")).toBe('SQLITE_AUTH')
    expect(await code('PRAGMA journal_mode = DELETE')).toBe('SQLITE_AUTH')
    expect(await code('COMMIT')).toBe('SQLITE_ERROR')
    expect(await code('ROLLBACK')).toBe('SQLITE_ERROR')
    expect(await code('BEGIN nonsense here')).toBe('SQLITE_AUTH')
    expect(
      await code(
        'WITH RECURSIVE c(n) AS (VALUES (1) UNION ALL SELECT n + 1 FROM c LIMIT 10001) SELECT n FROM c',
      ),
    ).toBe('RESPONSE_TOO_LARGE')
  })

  test('a wrong key, an unknown cell and a URL without its last slash are explained', async () => {
    const other = (url: string, authToken = cell.key) => createClient({ url, authToken }).execute('SELECT 1')
    expect((await failure(other(cell.url, 'cell_sk_wrong'))).code).toBe('UNAUTHORIZED')
    expect((await failure(other(cell.url.replace(cell.id, crypto.randomUUID())))).code).toBe('CELL_NOT_FOUND')
    expect((await failure(other(cell.url.slice(0, -1)))).message).toMatch(
      'End the URL of the database with a slash',
    )
  })

  test('a cell is found by its name, so that a URL can be written by hand', async () => {
    await newCell(cell.node, 'my app')
    const named = createClient({ url: `${cell.node.address}/v1/databases/my%20app/`, authToken: cell.key })
    onTestFinished(() => named.close())
    expect((await named.execute('SELECT 1 AS n')).rows).toMatchObject([{ n: 1 }])
  })

  test('with a key that only reads, statements that read run', async () => {
    await table()
    const { body } = await cell.node.request('POST', '/v1/api-keys', { access: 'read' })
    const reader = createClient({ url: cell.url, authToken: body['key'] as string })
    expect((await reader.execute('SELECT count(*) AS n FROM users')).rows).toMatchObject([{ n: 0 }])
    expect((await failure(reader.execute("INSERT INTO users (name) VALUES ('Ann')"))).code).toBe(
      'SQLITE_READONLY',
    )
    expect((await failure(reader.batch(["INSERT INTO users (name) VALUES ('Ann')"], 'write'))).code).toBe(
      'SQLITE_READONLY',
    )
    expect(await names()).toEqual([])
  })

  test('sync() is refused by the client, and close() ends its use', async () => {
    expect((await failure(Promise.resolve().then(() => client.sync()))).code).toBe('SYNC_NOT_SUPPORTED')
    client.close()
    expect(client.closed).toBe(true)
    await expect(client.execute('SELECT 1')).rejects.toThrow('closed')
  })
})
