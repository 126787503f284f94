import fs from 'node:fs'
import path from 'node:path'
import Database from 'better-sqlite3'
import { expect, test } from 'vitest'
import { StorePaths } from '../../../src/base/files/store-paths.ts'
import { CellError } from '../../../src/errors.ts'
import type { ImportCellOptions } from '../../../src/store/cells/cell-imports.ts'
import type { StoreOptions } from '../../../src/store/settings/store-options.ts'
import { foreign, leftOvers } from '../../support/database-files.ts'
import { rejectedBy } from '../../support/thrown.ts'
import { until } from '../../support/until.ts'
import { openWorkerStore } from '../../support/worker-store.ts'

/** A small database whose check takes minutes: its index has a condition that is much work for each row. */
function endless(): string {
  return checkedBy('length(hex(zeroblob(1000000 + a))) > 0')
}

/** @param condition of the index, judged for each row */
function checkedBy(condition: string): string {
  const file = foreign(`CREATE TABLE t (a); CREATE INDEX i ON t (a);
    WITH RECURSIVE c (x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c LIMIT 60000) INSERT INTO t SELECT x FROM c`)
  const database = new Database(file)
  database.unsafeMode()
  database.exec(`PRAGMA writable_schema = ON; UPDATE sqlite_schema
    SET sql = 'CREATE INDEX i ON t (a) WHERE ${condition}' WHERE name = 'i'`)
  database.close()
  return file
}

async function open(limits: StoreOptions['limits'] = {}) {
  const node = await openWorkerStore({ store: { limits } })
  const accounts = [node.store.accounts.create(), node.store.accounts.create()].map(({ id }) => id)
  const send = (file: string, options: ImportCellOptions) =>
    node.service.importCell(fs.createReadStream(file), options)
  return { node, send, attacker: accounts[0] as string, neighbour: accounts[1] as string }
}

/** Imports whose checks do not end, of which the file is received; `end` ends them. */
async function endlessImports(count: number, importing: (options: ImportCellOptions) => Promise<string>) {
  const abort = new AbortController()
  const received: Promise<void>[] = []
  let over = 0
  const refused = Array.from({ length: count }, () => {
    const { promise, resolve } = Promise.withResolvers<void>()
    received.push(promise)
    return importing({ signal: abort.signal, permit: () => resolve() }).catch((error: unknown) => {
      over++
      return error
    })
  })
  await Promise.all(received)
  const end = async () => {
    abort.abort(new Error('enough'))
    return await Promise.all(refused)
  }
  return { over: () => over, end }
}

test('the imports of one account hold up no other', async () => {
  const { node, send, attacker, neighbour } = await open()
  const file = endless()
  const { over, end } = await endlessImports(3, (options) => send(file, { ...options, accountId: attacker }))
  const id = await send(foreign('CREATE TABLE t (a)'), { accountId: neighbour })
  expect(node.store.findCell(id)?.accountId).toBe(neighbour)
  // The node ends a check after 20 s: the neighbour did not wait for that.
  expect(over()).toBe(0)
  expect((await end()).every((error) => error instanceof Error)).toBe(true)
  expect(leftOvers(node, 1)).toEqual([])
})

test('an import asks for its permission again after its check, and makes no cell without it', async () => {
  const { node, send, attacker } = await open()
  const asked: number[] = []
  const permit = (bytes: number) => {
    if (asked.push(bytes) === 2) throw new CellError('account_suspended', 'The account is suspended.')
  }
  const refused = await rejectedBy(send(foreign('CREATE TABLE t (a)'), { accountId: attacker, permit }))
  expect(refused.code).toBe('account_suspended')
  expect(asked[1]).toBeGreaterThan(asked[0] as number)
  expect(leftOvers(node, 0)).toEqual([])
})

const MIB = 1_048_576

/** Where the only cell of a store is built. */
async function onlyTarget(directory: string): Promise<string> {
  const paths = new StorePaths(directory)
  const folders = () =>
    fs.existsSync(paths.cells)
      ? fs.readdirSync(paths.cells).flatMap((each) => fs.readdirSync(path.join(paths.cells, each)))
      : []
  await until(() => folders().length === 1, 'the cell has a folder')
  return paths.cell(folders()[0] as string).restoreTarget
}

test('a check is ended as soon as the new file is larger than a cell may be', async () => {
  const { node, send, attacker } = await open({ cellBytesMax: 4 * MIB })
  const refusal = rejectedBy(send(endless(), { accountId: attacker }))
  // As SQLite does while it rebuilds a database, which can take four times the room.
  const target = await onlyTarget(node.directory)
  fs.writeFileSync(target, '')
  fs.truncateSync(target, 4 * MIB + 1)
  const limit = 4 * MIB
  expect(await refusal).toMatchObject({ code: 'cell_full', details: { limit, usage: limit + 1 } })
  expect(leftOvers(node, 0)).toEqual([])
})

test('a database that takes more room here than it has is refused, and leaves nothing', async () => {
  const { node, send, attacker } = await open({ cellBytesMax: 4 * MIB })
  // In 64-KiB pages such a row takes its bytes; in ours half a kibibyte, and a page of its own.
  const file = foreign(
    `CREATE TABLE t (a PRIMARY KEY, b) WITHOUT ROWID;
    WITH RECURSIVE c (x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c LIMIT 1500)
    INSERT INTO t SELECT x, zeroblob(1000) FROM c`,
    'PRAGMA page_size = 65536',
  )
  expect(fs.statSync(file).size).toBeLessThan(2 * MIB)
  const refused = await rejectedBy(send(file, { accountId: attacker }))
  expect(refused).toMatchObject({ code: 'cell_full', details: { limit: 4 * MIB } })
  expect(leftOvers(node, 0)).toEqual([])
})

test('a database whose check needs more memory than it may have is refused as one that is wrong', async () => {
  const { node, send, attacker } = await open()
  const refused = await rejectedBy(
    send(checkedBy('length(hex(zeroblob(450000000 + a))) > 0'), { accountId: attacker }),
  )
  expect(refused).toMatchObject({ code: 'invalid_database', message: expect.stringContaining('memory') })
  expect(leftOvers(node, 0)).toEqual([])
})
