import fs from 'node:fs'
import path from 'node:path'
import { expect, test } from 'vitest'
import { filesBelow, tempDirectory } from '../../support/temp-directory.ts'
import { rejectedBy } from '../../support/thrown.ts'
import { WorkerStore } from '../../support/worker-store.ts'

test('the archiver of a node verifies, names what is damaged, and leaves nothing in its spool', async () => {
  const folder = tempDirectory('cellstore-workers')
  const node = await WorkerStore.start({ folder })
  try {
    const { id } = node.store.createCell()
    await node.service.execute(id, { op: 'sql', sql: 'CREATE TABLE t (n)' })
    await node.service.execute(id, { op: 'sql', sql: 'INSERT INTO t VALUES (1), (2)' })
    const { version } = await node.service.backups.snapshot(id)
    const proven = await node.service.backups.verify(id)
    expect(proven).toMatchObject({ version, objects: [version] })
    expect(proven.tables).toContainEqual({ name: 't', rows: 2 })
    expect(node.store.retention?.lastProven(id)).toEqual({ version, provenAt: proven.provenAt })
    const file = filesBelow(folder).find((each) => each.endsWith(version)) as string
    fs.chmodSync(path.join(folder, file), 0o600)
    fs.truncateSync(path.join(folder, file), 200)
    expect(await rejectedBy(node.service.backups.verify(id))).toMatchObject({
      code: 'backup_corrupt',
      details: { version },
    })
    expect(node.store.verifications?.damagedCount()).toBe(1)
    expect(filesBelow(folder).filter((each) => each.includes('verify-'))).toEqual([])
  } finally {
    await node.close()
  }
})

test('a cell with a generated column is backed up, restored and proven deeply, in processes that can be ended', async () => {
  const node = await WorkerStore.start({ folder: tempDirectory('cellstore-workers') })
  try {
    const { id } = node.store.createCell()
    await node.service.execute(id, { op: 'sql', sql: 'CREATE TABLE t (n, twice INTEGER AS (n * 2))' })
    await node.service.execute(id, { op: 'sql', sql: 'INSERT INTO t VALUES (21)' })
    const { version } = await node.service.backups.snapshot(id)
    await node.service.execute(id, { op: 'sql', sql: 'DELETE FROM t' })
    await node.service.backups.restore(id, { version })
    const { rows } = await node.service.execute(id, { op: 'sql', sql: 'SELECT twice FROM t' })
    expect(rows).toEqual([{ twice: 42 }])
    // A version of what the restore replaced may be newer.
    const { deep, tables } = await node.service.backups.verify(id, { version, deep: true })
    expect(deep).toBe(true)
    expect(tables).toContainEqual({ name: 't', rows: 1 })
  } finally {
    await node.close()
  }
})

test('checks that never end hold up nobody else: not those of another account, nor of cells that are deleted', async () => {
  const node = await WorkerStore.start({ folder: tempDirectory('cellstore-workers') })
  const sql = (id: string, text: string) => node.service.execute(id, { op: 'sql', sql: text })
  const madeBy = async (accountId: string, ...statements: string[]) => {
    const { id } = node.store.createCell({ accountId })
    for (const each of statements) await sql(id, each)
    return id
  }
  let asked: string | undefined
  try {
    const [attacker, neighbour] = [node.store.accounts.create().id, node.store.accounts.create().id]
    const honest = await madeBy(
      neighbour,
      'CREATE VIRTUAL TABLE t USING fts5(n)',
      "INSERT INTO t VALUES ('one')",
    )
    const endless = await Promise.all(
      Array.from({ length: 12 }, () =>
        madeBy(
          attacker,
          'CREATE TABLE knob (n)',
          "CREATE VIEW v AS WITH RECURSIVE r (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM r) SELECT i AS rowid, 'a' AS x FROM r",
          'CREATE VIRTUAL TABLE f USING fts4(content="v", x)',
        ),
      ),
    )
    const abort = new AbortController()
    asked = endless.pop() as string
    let isHeldUp = true
    const backup = Promise.allSettled([
      node.service.backups.snapshot(asked, { signal: abort.signal }),
    ]).finally(() => (isHeldUp = false))
    const deletions = Promise.all(endless.map((id) => node.service.deleteCell(id)))
    const { version } = await node.service.backups.snapshot(honest)
    await node.service.backups.restore(honest, { version })
    expect((await node.service.backups.verify(honest, { version, deep: true })).version).toBe(version)
    await deletions
    const again = await node.service.backups.snapshot(honest)
    expect(again.version).not.toBe(version)
    // The node ends a check after 20 s: the neighbour waited for none.
    expect(isHeldUp).toBe(true)
    abort.abort()
    expect(await backup).toMatchObject([{ status: 'rejected', reason: { name: 'AbortError' } }])
  } finally {
    // Its check would be endless here too.
    if (asked !== undefined) await sql(asked, 'DROP TABLE f')
    await node.close()
  }
})
