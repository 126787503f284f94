import { type Connection, connect, DatabaseError } from '@tursodatabase/serverless'
import { createClient } from '@tursodatabase/serverless/compat'
import { beforeEach, describe, expect, onTestFinished, test } from 'vitest'
import { type HranaCell, PLACES, serveCell } from '../../support/http/hrana-cell.ts'

/** `@tursodatabase/serverless`, which speaks Hrana 3 with cursors and keeps its stream, as its documentation uses it. */
describe.each(PLACES)('@tursodatabase/serverless, with the cells %s', (_place, workers) => {
  let cell: HranaCell
  let connection: Connection
  beforeEach(async () => {
    cell = await serveCell(workers)
    connection = connect({ url: cell.url, authToken: cell.key })
    onTestFinished(() => connection.close())
    await connection.exec('CREATE TABLE users (id INTEGER PRIMARY KEY, email TEXT UNIQUE)')
  })

  const emails = async () => {
    const rows: { email: string }[] = await connection.all('SELECT email FROM users ORDER BY id')
    return rows.map(({ email }) => email)
  }

  test('prepare(), run(), get(), all() and iterate()', async () => {
    const insert = await connection.prepare('INSERT INTO users (email) VALUES (?)')
    expect(await insert.run(['ann@x'])).toMatchObject({ changes: 1, lastInsertRowid: 1 })
    await connection.run('INSERT INTO users (email) VALUES (:email)', { email: 'bob@x' })
    const byId = await connection.prepare('SELECT * FROM users WHERE id = ?')
    expect(await byId.get([1])).toMatchObject({ id: 1, email: 'ann@x' })
    expect(await byId.get([9])).toBeUndefined()
    expect(byId.columns()).toMatchObject([
      { name: 'id', type: 'INTEGER' },
      { name: 'email', type: 'TEXT' },
    ])
    const all = await connection.prepare('SELECT id FROM users ORDER BY id')
    expect(await all.pluck().all()).toEqual([1, 2])
    const seen: unknown[] = []
    for await (const row of (await connection.prepare('SELECT email FROM users ORDER BY id')).raw().iterate())
      seen.push(row)
    expect(seen).toEqual([['ann@x'], ['bob@x']])
    expect(
      await (await connection.prepare('SELECT 9007199254740993 AS n')).safeIntegers().get(),
    ).toMatchObject({
      n: 9_007_199_254_740_993n,
    })
  })

  test('integers stay integers, and blobs and infinity come back', async () => {
    const row = await connection.get('SELECT typeof(?) AS a, typeof(?) AS b, ? AS c, 9e999 AS d, NULL AS e', [
      5,
      5.5,
      new Uint8Array([0, 255]),
    ])
    expect(row).toMatchObject({ a: 'integer', b: 'real', d: Infinity, e: null })
    expect([...(row.c as Uint8Array)]).toEqual([0, 255])
  })

  test('batch() runs each statement on its own, or with a mode all or none', async () => {
    await connection.batch([
      "INSERT INTO users (email) VALUES ('ann@x')",
      { sql: 'INSERT INTO users (email) VALUES (?)', args: ['bob@x'] },
    ])
    const doubled = [
      "INSERT INTO users (email) VALUES ('cid@x')",
      "INSERT INTO users (email) VALUES ('ann@x')",
    ]
    await expect(connection.batch(doubled, 'immediate')).rejects.toThrow('UNIQUE constraint failed')
    expect(await emails()).toEqual(['ann@x', 'bob@x'])
    await expect(connection.batch(doubled)).rejects.toThrow('UNIQUE constraint failed')
    expect(await emails()).toEqual(['ann@x', 'bob@x', 'cid@x'])
  })

  test('transaction() commits what it did, or undoes it', async () => {
    const add = connection.transaction(async (email: string, fails: boolean) => {
      await connection.run('INSERT INTO users (email) VALUES (?)', email)
      expect(connection.inTransaction).toBe(true)
      if (fails) throw new Error('no')
    })
    await add('ann@x', false)
    await expect(add('bob@x', true)).rejects.toThrow('no')
    await add.immediate('cid@x', false)
    expect(connection.inTransaction).toBe(false)
    expect(await emails()).toEqual(['ann@x', 'cid@x'])
  })

  test('BEGIN and COMMIT of its own keep a transaction open across requests', async () => {
    await connection.exec('BEGIN')
    await connection.run("INSERT INTO users (email) VALUES ('ann@x')")
    expect(connection.inTransaction).toBe(true)
    const other = connect({ url: cell.url, authToken: cell.key })
    expect(await other.get('SELECT count(*) AS n FROM users')).toMatchObject({ n: 0 })
    await other.close()
    await connection.exec('COMMIT')
    expect(connection.inTransaction).toBe(false)
    expect(await emails()).toEqual(['ann@x'])
  })

  test('exec() runs a script, and pragma() asks', async () => {
    await connection.exec(
      "INSERT INTO users (email) VALUES ('ann@x'); INSERT INTO users (email) VALUES ('bob@x')",
    )
    expect(await emails()).toEqual(['ann@x', 'bob@x'])
    const { rows } = await connection.pragma('table_info(users)')
    expect(rows.map(([, name]: unknown[]) => name)).toEqual(['id', 'email'])
  })

  test('errors are those of SQLite, and leave the connection as it was', async () => {
    await connection.run("INSERT INTO users (email) VALUES ('ann@x')")
    const doubled = connection.run("INSERT INTO users (email) VALUES ('ann@x')")
    await expect(doubled).rejects.toThrow(DatabaseError)
    await expect(doubled).rejects.toMatchObject({ code: 'SQLITE_CONSTRAINT' })
    await expect(connection.all('SELECT nothing')).rejects.toMatchObject({ code: 'SQLITE_ERROR' })
    await expect(connection.prepare('SELECT FROM')).rejects.toThrow('syntax error')
    expect(await emails()).toEqual(['ann@x'])
  })

  test('a revoked key ends the connection', async () => {
    const { body } = await cell.node.request('POST', '/v1/api-keys', {})
    const revoked = connect({ url: cell.url, authToken: body['key'] as string })
    await revoked.exec('BEGIN')
    await revoked.run("INSERT INTO users (email) VALUES ('ann@x')")
    await cell.node.request('DELETE', `/v1/api-keys/${String(body['id'])}`)
    await expect(revoked.exec('COMMIT')).rejects.toThrow('401')
    expect(await emails()).toEqual([])
  })

  test('its layer for libSQL has execute() and batch()', async () => {
    const client = createClient({ url: cell.url, authToken: cell.key })
    await client.batch([
      "INSERT INTO users (email) VALUES ('ann@x')",
      { sql: 'INSERT INTO users (email) VALUES (?)', args: ['bob@x'] },
    ])
    const { rows } = await client.execute('SELECT * FROM users WHERE id = ?', [2])
    expect(rows).toMatchObject([{ id: 2, email: 'bob@x' }])
    client.close()
  })
})
