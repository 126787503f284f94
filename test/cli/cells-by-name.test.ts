import { execFileSync } from 'node:child_process'
import fs from 'node:fs'
import path from 'node:path'
import Database from 'better-sqlite3'
import { describe, expect, test } from 'vitest'
import { ENTRY, Workplace } from '../support/cli/workplace.ts'
import { shellEnv } from '../support/package/run.ts'

interface Listed {
  databases: { id: string; name: string | null; size_bytes: number }[]
}

const piped = (place: Workplace, args: string[], input?: Buffer) =>
  execFileSync(process.execPath, [ENTRY, ...args], {
    cwd: place.folder,
    env: { ...shellEnv(), ...place.env },
    ...(input === undefined ? {} : { input }),
    stdio: ['pipe', 'pipe', 'pipe'],
  })

describe.each(['a running node', 'no node'])('cells by name and their files, with %s', (where) => {
  async function started(): Promise<Workplace> {
    const place = new Workplace()
    const node = await place.serve()
    if (where === 'no node') await node.stop()
    return place
  }

  test('a name is good wherever an id is', async () => {
    const place = await started()
    const id = await place.text('cells', 'create', '--name', 'acme')
    await place.text('sql', 'acme', 'CREATE TABLE t (a)')
    expect(await place.failure('cells', 'create', '--name', 'acme')).toMatchObject({ code: 'name_taken' })
    expect(await place.text('cells', 'rename', 'acme', 'new')).toBe(`${id} is called new now.`)
    expect(await place.failure('sql', 'acme', 'SELECT 1')).toMatchObject({ code: 'cell_not_found' })
    expect((await place.json('backup', 'new'))['version']).toContain(id)
    expect(await place.text('backups', 'list', 'new')).toContain(id)
    const listed = await place.json<Listed>('cells', 'list')
    expect(listed.databases).toMatchObject([{ id, name: 'new', size_bytes: expect.any(Number) }])
    const key = await place.json('keys', 'create', '--read-only', '--cell', 'new')
    expect(key['cell_ids']).toEqual([id])
    expect(await place.failure('keys', 'create', '--cell', 'acme')).toMatchObject({ code: 'cell_not_found' })
    expect(listed.databases[0]?.size_bytes).toBeGreaterThan(4_096)
    expect(await place.text('cells', 'list')).toMatch(/ID +NAME +SIZE/)
    expect(await place.json('cells', 'delete', 'new')).toEqual({ id, deleted: true })
  })

  test('a name of several accounts is refused with their ids', async () => {
    const place = await started()
    const { account_id: other } = await place.json<{ account_id: string }>('keys', 'create', '--new-account')
    const accounts = (await place.json<{ account_id: string }[]>('keys', 'list')).map((key) => key.account_id)
    const ids: string[] = []
    for (const account of new Set([...accounts, other]))
      ids.push(await place.text('cells', 'create', '--name', 'both', '--account', account))
    const refused = await place.failure('sql', 'both', 'SELECT 1')
    expect(refused.code).toBe('name_ambiguous')
    for (const id of ids) expect(refused.message).toContain(id)
    const key = await place.json('keys', 'create', '--account', other, '--cell', 'both')
    expect(key['cell_ids']).toEqual([ids[0]]) // the newest key is listed first
  })

  test('a cell goes into a file and comes back, also through pipes', async () => {
    const place = await started()
    await place.text('cells', 'create', '--name', 'acme')
    await place.text('sql', 'acme', 'CREATE TABLE t (a)')
    await place.text('sql', 'acme', 'INSERT INTO t VALUES (?)', '42')
    expect(await place.json('cells', 'export', 'acme', 'acme.db')).toEqual({
      file: 'acme.db',
      size_bytes: fs.statSync(path.join(place.folder, 'acme.db')).size,
    })
    expect(await place.failure('cells', 'export', 'acme', 'acme.db')).toMatchObject({
      code: 'invalid_request',
    })
    const bytes = piped(place, ['cells', 'export', 'acme', '-'])
    const database = new Database(bytes)
    expect(database.prepare('SELECT a FROM t').pluck().get()).toBe(42)
    database.close()
    expect(await place.failure('cells', 'import', 'acme.db', '--name', 'acme')).toMatchObject({
      code: 'name_taken',
    })
    await place.text('cells', 'import', 'acme.db', '--name', 'from-file')
    piped(place, ['cells', 'import', '-', '--name', 'from-pipe'], bytes)
    for (const name of ['from-file', 'from-pipe'])
      expect(await place.json('sql', name, 'SELECT a FROM t')).toMatchObject({ rows: [{ a: 42 }] })
    fs.writeFileSync(path.join(place.folder, 'wrong.db'), 'nothing that SQLite knows'.repeat(10))
    expect(await place.failure('cells', 'import', 'wrong.db')).toMatchObject({
      code: 'invalid_database',
      exit: 1,
    })
    expect(await place.failure('cells', 'import', 'none.db')).toMatchObject({ code: 'invalid_request' })
    expect(fs.readdirSync(place.folder).filter((name) => name.includes('partial'))).toEqual([])
  })
})
