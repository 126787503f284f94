import fs from 'node:fs'
import path from 'node:path'
import { expect, test } from 'vitest'
import { systemClock } from '../../src/base/clock.ts'
import { StorePaths } from '../../src/base/files/store-paths.ts'
import { readOwner } from '../../src/catalog/directory-lock.ts'
import { CellStore } from '../../src/store/cell-store.ts'
import { type ServedNode, Workplace } from '../support/cli/workplace.ts'
import { checkIntegrity } from '../support/integrity.ts'
import { descendantsOf, isAlive, processorMs } from '../support/processes.ts'
import { rejectedBy } from '../support/thrown.ts'
import { until } from '../support/until.ts'

/** Runs until it is ended: how long any number of rows takes is the machine's. */
const ENDLESS_WRITE =
  'INSERT INTO t WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c) SELECT max(n) FROM c'
const SERVE = ['--workers', '1', '--statement-timeout', '120s']

async function newCell(node: ServedNode): Promise<string> {
  const { body } = await node.request('POST', '/v1/databases')
  const id = String(body['id'])
  expect((await query(node, id, 'CREATE TABLE t (n)')).status).toBe(200)
  return id
}

function query(node: ServedNode, id: string, sql: string, key = node.key) {
  return node.request('POST', `/v1/databases/${id}/sql`, { sql }, key)
}

/** Until the statement that was just sent runs in a worker. @returns that worker */
async function untilBusy(node: ServedNode): Promise<number> {
  const before = new Map(descendantsOf(node.pid).map((pid) => [pid, processorMs(pid)]))
  const isBusy = (pid: number) => processorMs(pid) - (before.get(pid) ?? Number.POSITIVE_INFINITY) > 300
  let busy: number | undefined
  await until(() => {
    busy = descendantsOf(node.pid).find(isBusy)
    return busy !== undefined
  }, 'a worker runs the statement')
  return busy as number
}

test('an archiver that does not notice the end of its node is ended by the next one, before it serves (invariant 2)', async () => {
  const place = new Workplace()
  const first = await place.serve(...SERVE)
  const archiver = readOwner(new StorePaths(place.dataDir))?.archiver?.pid as number
  process.kill(archiver, 'SIGSTOP')
  first.child.kill('SIGKILL')
  await first.ended
  expect(isAlive(archiver)).toBe(true)
  const second = await place.serve(...SERVE)
  expect(isAlive(archiver)).toBe(false)
  expect(await second.stop()).toEqual([0, null])
})

test('only the node is killed during a long write of a worker, and a new one starts at once: it ends the worker before it serves, and nothing unacknowledged appears later (invariant 2)', async () => {
  const place = new Workplace()
  const first = await place.serve(...SERVE)
  const id = await newCell(first)
  await query(first, id, 'INSERT INTO t VALUES (1)')
  const unanswered = query(first, id, ENDLESS_WRITE).catch((error) => error)
  const worker = await untilBusy(first)
  first.child.kill('SIGKILL')
  await first.ended
  expect(isAlive(worker)).toBe(true)
  const second = await place.serve(...SERVE)
  expect(isAlive(worker)).toBe(false)
  expect(await unanswered).toBeInstanceOf(Error)
  await query(second, id, 'INSERT INTO t VALUES (2)', first.key)
  const { body } = await query(second, id, 'SELECT n FROM t', first.key)
  expect(body['rows']).toEqual([{ n: 1 }, { n: 2 }])
  expect(await second.stop()).toEqual([0, null])
  checkIntegrity(place.dataDir)
})

test('a directory whose cells a worker still holds for a node that is gone is refused, even where nobody has it on record; and is free once the worker has ended (invariant 2)', async () => {
  const place = new Workplace()
  const node = await place.serve(...SERVE)
  const id = await newCell(node)
  void query(node, id, ENDLESS_WRITE).catch(() => {})
  const worker = await untilBusy(node)
  node.child.kill('SIGKILL')
  await node.ended
  fs.rmSync(path.join(place.dataDir, 'owner.json'))
  process.kill(worker, 'SIGSTOP')
  // It waits for ten seconds of its own clock.
  const fast = { ...systemClock, monotonic: () => 20 * systemClock.monotonic() }
  const objectStore = `file://${place.objects}`
  const refused = await rejectedBy(CellStore.open(place.dataDir, { objectStore, clock: fast }))
  expect(refused.code).toBe('store_locked')
  expect(isAlive(worker)).toBe(true)
  process.kill(worker, 'SIGKILL')
  const store = await CellStore.open(place.dataDir, { objectStore })
  expect(store.openCell(id).sql('SELECT * FROM t').rows).toEqual([])
  await store.close()
})

test('SIGTERM while statements run and others wait: requests under way get their answer or are cut, no worker is left, and it ends with 0', async () => {
  const place = new Workplace()
  const node = await place.serve(...SERVE, '--drain', '1s')
  const [slow, other] = [await newCell(node), await newCell(node)]
  const cut = query(node, slow, ENDLESS_WRITE).catch((error) => error)
  await untilBusy(node)
  const workers = () => descendantsOf(node.pid)
  const acknowledged: number[] = []
  let isOver = false
  const writer = (async () => {
    for (let n = 0; !isOver; n++) {
      const { status } = await query(node, other, `INSERT INTO t VALUES (${n})`)
      if (status === 200) acknowledged.push(n)
    }
  })().catch(() => {})
  await until(() => acknowledged.length > 10, 'the other cell is written to')
  const before = workers()
  expect(before.length).toBeGreaterThanOrEqual(2)
  const ended = await node.stop()
  isOver = true
  await Promise.all([writer, cut])
  expect(ended).toEqual([0, null])
  expect(before.filter(isAlive)).toEqual([])
  const store = await CellStore.open(place.dataDir, { objectStore: `file://${place.objects}` })
  const rows = store
    .openCell(other)
    .sql<{ n: number }>('SELECT n FROM t')
    .rows.map(({ n }) => n)
  expect(rows).toEqual(expect.arrayContaining(acknowledged))
  expect(store.openCell(slow).sql('SELECT * FROM t').rows).toEqual([])
  await store.close()
  checkIntegrity(place.dataDir)
})
