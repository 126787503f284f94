import fs from 'node:fs'
import Database from 'better-sqlite3'
import { expect, test } from 'vitest'
import { CellError } from '../../../src/errors.ts'
import type { ImportCellOptions } from '../../../src/store/cell-imports.ts'
import { foreign, leftOvers } from '../../support/database-files.ts'
import { rejectedBy } from '../../support/thrown.ts'
import { openWorkerStore } from '../../support/worker-store.ts'

/** A small database whose check takes minutes: its index has a condition that is much work for each row. */
function endless(): string {
  const file = foreign(`CREATE TABLE t (a); CREATE INDEX i ON t (a);
    WITH RECURSIVE c (x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c LIMIT 60000) INSERT INTO t SELECT x FROM c`)
  const database = new Database(file)
  database.unsafeMode()
  database.exec(`PRAGMA writable_schema = ON; UPDATE sqlite_schema
    SET sql = 'CREATE INDEX i ON t (a) WHERE length(hex(zeroblob(1000000 + a))) > 0' WHERE name = 'i'`)
  database.close()
  return file
}

async function open() {
  const node = await openWorkerStore()
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
