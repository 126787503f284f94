import { execFileSync } from 'node:child_process'
import fs from 'node:fs'
import path from 'node:path'
import { Writable } from 'node:stream'
import Database from 'better-sqlite3'
import { describe, expect, test, vi } from 'vitest'
import { CellPool } from '../../src/engine/cell-pool.ts'
import { leftOvers, place } from '../support/database-files.ts'
import { openTestCell } from '../support/open-test-store.ts'
import { rejectedBy } from '../support/thrown.ts'

const ROWS = [[1, 'text', 2.5, Buffer.from([0, 255]), null, 9_007_199_254_740_993n]]

describe('an export', () => {
  test('is one file that any SQLite opens, with the tables and the entries', async () => {
    const { cell } = await openTestCell()
    cell.exec('CREATE TABLE t (a INTEGER PRIMARY KEY, b, c, d, e, f); CREATE INDEX i ON t (b);')
    cell.sql('INSERT INTO t VALUES (?, ?, ?, ?, ?, ?)', ROWS[0])
    cell.kv.put('k', 'v')
    const file = place()
    const { sizeBytes } = await cell.export(file)
    expect(fs.statSync(file).size).toBe(sizeBytes)
    expect(fs.readdirSync(path.dirname(file))).toEqual(['file.db'])
    fs.chmodSync(path.dirname(file), 0o500)
    const database = new Database(file, { readonly: true })
    expect(database.pragma('journal_mode', { simple: true })).toBe('delete')
    expect(database.pragma('integrity_check', { simple: true })).toBe('ok')
    expect(database.prepare('SELECT * FROM t').safeIntegers().raw().all()).toEqual([
      [1n, 'text', 2.5, Buffer.from([0, 255]), null, 9_007_199_254_740_993n],
    ])
    expect(database.prepare('SELECT key, value FROM _cell_kv').all()).toEqual([{ key: 'k', value: 'v' }])
    database.close()
    fs.chmodSync(path.dirname(file), 0o700)
  })

  test.runIf(hasSqlite())('is opened by sqlite3', async () => {
    const { cell } = await openTestCell()
    cell.exec('CREATE TABLE t (a); INSERT INTO t VALUES (42);')
    const file = place()
    await cell.export(file)
    expect(execFileSync('sqlite3', [file, 'SELECT a FROM t'], { encoding: 'utf8' })).toBe('42\n')
  })

  test('holds what was committed while it was made, whole transactions only, and stops no writer', async () => {
    const test = await openTestCell()
    const { cell } = test
    cell.exec('CREATE TABLE a (n INTEGER PRIMARY KEY, x); CREATE TABLE b (n INTEGER PRIMARY KEY);')
    cell.transaction(() => {
      for (let n = 1; n <= 2_000; n++) cell.sql('INSERT INTO a VALUES (?, zeroblob(3000))', [n])
    })
    let written = 0
    const file = place()
    await cell.export(file, {
      onProgress: () => {
        written++
        cell.transaction(() => {
          cell.sql('UPDATE a SET x = randomblob(3000) WHERE n = ?', [written])
          cell.sql('INSERT INTO a VALUES (?, NULL)', [2_000 + written])
          cell.sql('INSERT INTO b VALUES (?)', [written])
        })
      },
    })
    expect(written).toBeGreaterThan(10)
    const database = new Database(file, { readonly: true })
    expect(database.pragma('integrity_check', { simple: true })).toBe('ok')
    const [a, b] = ['a', 'b'].map((name) => database.prepare(`SELECT count(*) FROM ${name}`).pluck().get())
    database.close()
    expect(a).toBe(2_000 + (b as number))
    expect(b).toBeGreaterThan(written - 3)
    expect(leftOvers(test, 1)).toEqual([])
  })

  test('goes into a stream, and leaves nothing in the spool', async () => {
    const test = await openTestCell()
    const chunks: Buffer[] = []
    const target = new Writable({
      write(chunk, _encoding, done) {
        chunks.push(chunk)
        done()
      },
    })
    const { sizeBytes } = await test.cell.export(target)
    expect(Buffer.concat(chunks)).toHaveLength(sizeBytes)
    expect(leftOvers(test, 1)).toEqual([])
  })

  test('of a cell that is deleted meanwhile says so, and leaves no file', async () => {
    const { cell, store } = await openTestCell()
    cell.exec('CREATE TABLE t (a); INSERT INTO t VALUES (zeroblob(2000000));')
    const file = place()
    const onProgress = () => store.findCell(cell.id)?.deletedAt === null && store.deleteCell(cell.id)
    expect((await rejectedBy(cell.export(file, { onProgress }))).code).toBe('cell_not_found')
    expect(fs.readdirSync(path.dirname(file))).toEqual([])
  })

  test('of a cell that a restore switches meanwhile is that of its new database', async () => {
    const { cell } = await openTestCell()
    const opened = vi.spyOn(CellPool.prototype, 'open')
    cell.exec('CREATE TABLE t (a); INSERT INTO t VALUES (zeroblob(2000000)), (2);')
    const [pool] = opened.mock.contexts as CellPool[]
    opened.mockRestore()
    const file = place()
    let switched = 0
    const onProgress = () => {
      if (switched++ === 0) pool?.replace(cell.id, () => {})
    }
    await cell.export(file, { onProgress })
    expect(switched).toBeGreaterThan(1)
    const database = new Database(file, { readonly: true })
    expect(database.prepare('SELECT count(*) FROM t').pluck().get()).toBe(2)
    database.close()
  })

  test('replaces no file, and leaves none when it is ended', async () => {
    const { cell } = await openTestCell()
    const file = place()
    fs.writeFileSync(file, 'mine')
    expect(await rejectedBy(cell.export(file))).toMatchObject({ code: 'invalid_request' })
    expect(fs.readFileSync(file, 'utf8')).toBe('mine')
    const other = place('other.db')
    const reason = new Error('enough')
    const abort = new AbortController()
    const ended = cell.export(other, { signal: abort.signal, onProgress: () => abort.abort(reason) })
    await expect(ended).rejects.toBe(reason)
    expect(fs.readdirSync(path.dirname(other))).toEqual([])
    expect(await rejectedBy(cell.export(7 as unknown as string))).toMatchObject({ code: 'invalid_request' })
    expect(await rejectedBy(cell.export(other, { onprogress: 1 } as object))).toMatchObject({
      code: 'invalid_request',
    })
  })
})

function hasSqlite(): boolean {
  try {
    execFileSync('sqlite3', ['--version'])
    return true
  } catch {
    return false
  }
}
