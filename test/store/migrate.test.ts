import { describe, expect, test } from 'vitest'
import type { Cell, Migration } from '../../src/store/open/cell.ts'
import { ended, startChild } from '../support/child.ts'
import { openTestCell } from '../support/open-test-store.ts'
import { codeOf, thrownBy } from '../support/thrown.ts'

const USERS: Migration[] = [
  "CREATE TABLE users (name TEXT); INSERT INTO users VALUES ('Ann '), ('Bob')",
  (cell) => void cell.sql('UPDATE users SET name = trim(name)'),
  (cell) => {
    cell.sql('ALTER TABLE users ADD COLUMN age INTEGER')
    cell.kv.put('migrated', 'yes')
  },
]

const versionOf = (cell: Cell) => cell.prepare('PRAGMA user_version').pluck().get()

describe('migrate', () => {
  test('runs what the cell has not had, in order, and the second time nothing', async () => {
    const { cell } = await openTestCell()
    expect(cell.migrate(USERS.slice(0, 2))).toEqual({ from: 0, to: 2 })
    expect(cell.prepare('SELECT name FROM users').pluck().all()).toEqual(['Ann', 'Bob'])
    cell.sql("INSERT INTO users VALUES (' Cleo')")
    expect([cell.migrate(USERS), cell.migrate(USERS)]).toEqual([
      { from: 2, to: 3 },
      { from: 3, to: 3 },
    ])
    expect(cell.get('SELECT * FROM users WHERE age IS NULL AND name > ?', ['Ann'])).toEqual({
      name: 'Bob',
      age: null,
    })
    expect(cell.prepare('SELECT count(*) FROM users WHERE name = ?').pluck().get(' Cleo')).toBe(1)
    expect(cell.kv.get('migrated')).toBe('yes')
  })

  test('callers at the same time: one migrates, the others find it done', async () => {
    const { cell, store } = await openTestCell()
    const handles = [cell, store.openCell(cell.id), store.openCell(cell.id)]
    const results = await Promise.all(handles.map(async (handle) => handle.migrate(USERS)))
    expect(results).toEqual([
      { from: 0, to: 3 },
      { from: 3, to: 3 },
      { from: 3, to: 3 },
    ])
  })

  test('one that fails leaves nothing of itself, and those before it stay', async () => {
    const { cell } = await openTestCell()
    const failing: Migration[] = [...USERS.slice(0, 1), 'CREATE TABLE b (x); INSERT INTO nowhere VALUES (1)']
    expect(thrownBy(() => cell.migrate(failing)).message).toBe(
      'Migration 2: Statement 2 of the script, at line 1: no such table: nowhere',
    )
    expect(versionOf(cell)).toBe(1)
    expect(cell.prepare("SELECT name FROM sqlite_schema WHERE name IN ('users', 'b')").pluck().all()).toEqual(
      ['users'],
    )
    expect(cell.migrate(USERS)).toEqual({ from: 1, to: 3 })
  })

  test('one that ends its transaction and hides the error has not run: the next call runs it', async () => {
    const { cell } = await openTestCell()
    cell.sql('CREATE TABLE t (a PRIMARY KEY)')
    cell.sql('INSERT INTO t VALUES (1)')
    const ending: Migration = (each) => {
      expect(codeOf(() => each.sql('INSERT OR ROLLBACK INTO t VALUES (1)'))).toBe('constraint_violation')
    }
    expect(codeOf(() => cell.migrate([ending]))).toBe('sql_error')
    expect(versionOf(cell)).toBe(0)
    expect(cell.migrate(USERS)).toEqual({ from: 0, to: 3 })
  })

  test('a function’s own error is thrown as it is', async () => {
    const { cell } = await openTestCell()
    const error = new Error('mine')
    expect(() =>
      cell.migrate([
        (migrated) => {
          migrated.exec('CREATE TABLE t (a)')
          throw error
        },
      ]),
    ).toThrow(error)
    expect([versionOf(cell), cell.get("SELECT 1 FROM sqlite_schema WHERE name = 't'")]).toEqual([
      0,
      undefined,
    ])
  })

  test('a newer cell is refused with both numbers, and left as it is', async () => {
    const { cell } = await openTestCell()
    cell.migrate(USERS)
    expect(thrownBy(() => cell.migrate(USERS.slice(0, 2)))).toMatchObject({
      code: 'invalid_request',
      message: expect.stringMatching(/at version 3 .*up to version 2/),
    })
    cell.sql('PRAGMA user_version = -1')
    expect(thrownBy(() => cell.migrate(USERS)).message).toContain('at version -1')
  })

  test('an async migration, one of another type, and a call inside a transaction are refused', async () => {
    const { cell } = await openTestCell()
    const insert = async (migrated: Cell) => void migrated.exec('CREATE TABLE t (a)')
    expect([
      codeOf(() => cell.migrate([insert as unknown as Migration])),
      codeOf(() => cell.migrate([7 as unknown as string])),
      codeOf(() => cell.transaction(() => cell.migrate(USERS))),
      codeOf(() => cell.migrate([(migrated) => void migrated.migrate(USERS)])),
    ]).toEqual(Array.from({ length: 4 }, () => 'invalid_request'))
    expect([versionOf(cell), cell.get("SELECT 1 FROM sqlite_schema WHERE name IN ('t', 'users')")]).toEqual([
      0,
      undefined,
    ])
  })

  test('a process that is killed inside a migration leaves those before it, and the next one goes on', async () => {
    const test = await openTestCell()
    const { id } = test.cell
    await test.store.close()
    const child = startChild('migrate-until-killed.ts', test.directory, id)
    for await (const _ of child.stdout) break
    child.kill('SIGKILL')
    await ended(child)
    const cell = (await test.reopen()).openCell(id)
    expect([versionOf(cell), cell.prepare('SELECT name FROM users ORDER BY 1').pluck().all()]).toEqual([
      1,
      ['Ann ', 'Bob'],
    ])
    expect(cell.migrate(USERS)).toEqual({ from: 1, to: 3 })
  })
})
