import fs from 'node:fs'
import path from 'node:path'
import { expect, test } from 'vitest'
import { readLog } from '../../src/commit-log/log-format.ts'
import { quarantineUntilStart } from '../../src/engine/quarantine.ts'
import { until } from '../support/until.ts'
import { openWorkerStore, type WorkerStore } from '../support/worker-store.ts'

/** The cells that each worker's commit log names, by its pid. */
function logsOf({ store }: WorkerStore): Map<number, Set<string>> {
  const { commitLogs } = store.paths
  const logs = new Map<number, Set<string>>()
  for (const name of fs.existsSync(commitLogs) ? fs.readdirSync(commitLogs) : []) {
    const { records } = readLog(fs.readFileSync(path.join(commitLogs, name)))
    if (records.length > 0) logs.set(Number.parseInt(name, 10), new Set(records.map(({ cellId }) => cellId)))
  }
  return logs
}

test('the commit log of a killed worker goes, and holds up no cell; those of others stay (invariants 1, 2)', async () => {
  const node = await openWorkerStore({ hasObjects: false, service: { workers: 2 } })
  const { service, store } = node
  const cells = Array.from({ length: 12 }, () => store.createCell().id)
  let n = 0
  const write = async () => {
    n++
    const put = { op: 'kv.put', key: 'n', value: String(n) } as const
    await Promise.all(cells.map((id) => service.execute(id, put)))
  }
  await write()
  // A cell's id decides which worker has it: of any number, one worker may have none, or one, which needs no log.
  while (logsOf(node).size < 2) {
    cells.push(store.createCell().id)
    await write()
  }
  const [[killed, named] = [0, new Set<string>()], [other] = [0]] = logsOf(node)
  process.kill(killed, 'SIGKILL')
  // At once: also those cells whose newest commits may be on disk in that log alone.
  await write()
  await until(() => !logsOf(node).has(killed), "the killed worker's log goes")
  expect(named.size).toBeGreaterThan(1)
  expect(logsOf(node).has(other)).toBe(true)
  for (const id of cells)
    expect(await service.execute(id, { op: 'kv.get', key: 'n' })).toMatchObject({ value: String(n) })
  expect(node.log.filter(({ level }) => level === 'error')).toEqual([])
  await node.close()
  expect(fs.readdirSync(store.paths.commitLogs)).toEqual([])
})

test('no worker serves a cell whose commits could not be brought back at the start (invariant 1)', async () => {
  const { service, store } = await openWorkerStore({ hasObjects: false, service: { workers: 2 } })
  const [closed, other] = [store.createCell().id, store.createCell().id]
  fs.mkdirSync(store.paths.commitLogs, { recursive: true })
  quarantineUntilStart(store.paths.cell(closed), store.clock.now())
  const put = { op: 'kv.put', key: 'n', value: '1' } as const
  await expect(service.execute(closed, put)).rejects.toMatchObject({
    code: 'cell_quarantined',
    details: { reason: 'io_error' },
  })
  expect(await service.describe(closed)).toMatchObject({ quarantine: { reason: 'io_error' } })
  await service.execute(other, put)
})
