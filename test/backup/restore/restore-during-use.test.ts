import fs from 'node:fs'
import path from 'node:path'
import { setImmediate as turnOfTheLoop } from 'node:timers/promises'
import { pathToFileURL } from 'node:url'
import { expect, test } from 'vitest'
import { isCellError } from '../../../src/errors.ts'
import type { CellStore } from '../../../src/store/cell-store.ts'
import { StoreDirectory } from '../../support/store-directory.ts'
import { tempDirectory } from '../../support/temp-directory.ts'

/** A store whose one cell has a snapshot of a few megabytes, so that restoring it takes many turns of the event loop. */
async function storeWithSnapshot(): Promise<{ reopen(): Promise<CellStore>; dataDir: string; id: string }> {
  const folder = tempDirectory()
  const data = StoreDirectory.ofTest(path.join(folder, 'data'))
  const options = { objectStore: pathToFileURL(path.join(folder, 'objects')).href, openCellsMax: 1 }
  const store = await data.create(options)
  const { id } = store.createCell()
  store.openCell(id).sql('CREATE TABLE t AS SELECT 1 AS n, randomblob(4000000) AS b')
  await store.backups.snapshot(id)
  store.openCell(id).sql('UPDATE t SET n = 2')
  await store.close()
  return { reopen: () => data.open(options), dataDir: data.path, id }
}

test('a cell that is closed and opened while it is restored shows the old data until the switch', async () => {
  const { reopen, id } = await storeWithSnapshot()
  const store = await reopen()
  const cell = store.openCell(id)
  const other = store.createCell()
  // The pool has room for one.
  const read = () => {
    other.sql('SELECT 1')
    return cell.sql<{ n: number }>('SELECT n FROM t').rows[0]?.n
  }
  const seen = new Set<unknown>()
  let done = false
  const restored = store.backups.restore(id).finally(() => {
    done = true
  })
  while (!done) {
    seen.add(read())
    await turnOfTheLoop()
  }
  await restored
  expect([...seen][0]).toBe(2)
  expect(read()).toBe(1)
})

test('a cell whose data is gone comes back once, however often it is asked for meanwhile', async () => {
  const { reopen, dataDir, id } = await storeWithSnapshot()
  fs.rmSync(path.join(dataDir, 'cells', id.slice(0, 2), id), { recursive: true })
  const store = await reopen()
  const cell = store.openCell(id)
  const answers: unknown[] = []
  const ask = () => {
    try {
      answers.push(cell.sql<{ n: number }>('SELECT n FROM t').rows[0]?.n)
    } catch (error) {
      answers.push(isCellError(error) ? error.code : error)
    }
  }
  let back = false
  const recovery = store
    .openCell(id)
    .ensureLocal()
    .finally(() => {
      back = true
    })
  while (!back) {
    ask()
    await turnOfTheLoop()
  }
  await recovery
  ask()
  expect(answers.length).toBeGreaterThan(3)
  expect(answers.slice(0, -1).every((answer) => answer === 'cell_restoring' || answer === 2)).toBe(true)
  // The close shipped the update, which the snapshot lacks.
  expect(answers.at(-1)).toBe(2)
})
