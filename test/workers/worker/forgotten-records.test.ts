import { expect, test } from 'vitest'
import { silentLog } from '../../../src/base/log.ts'
import type { CellRecord } from '../../../src/catalog/cell-registry.ts'
import type { WorkerSettings } from '../../../src/workers/protocol/protocol.ts'
import { WorkerCells } from '../../../src/workers/worker/worker-cells.ts'
import { ScratchPlace } from '../../support/backup/scratch-store.ts'

const NOTHING = () => {}
const EVENTS = {
  changed: NOTHING,
  unshipped: NOTHING,
  expiry: NOTHING,
  working: NOTHING,
  committed: NOTHING,
  interrupted: NOTHING,
}

test('A worker that forgets the records of cells knows the accounts of those that wait to be shipped: they keep their turns', async () => {
  const place = new ScratchPlace()
  const store = await place.create({ backups: { maxLagMs: 3_600_000 } })
  const [many, few] = [store.accounts.create().id, store.accounts.create().id]
  const ids = [many, many, many, few].map((accountId) => store.createCell({ accountId }).id)
  const { settings } = store.core
  const given = { dataDir: place.paths.root, hasObjectStore: true, building: [], settings }
  const worker = new WorkerCells(given as unknown as WorkerSettings, silentLog, EVENTS)
  for (const id of ids) {
    worker.setRecord(id, store.core.findCell(id) as CellRecord)
    worker.local.handle(id).sql('CREATE TABLE t (a)')
    worker.local.pool.close(id)
  }
  for (const forgotten of [ids, ids.slice(1)]) {
    worker.forget(forgotten, () => false)
    const collected = await worker.collectLogs({ cellsMax: 100, bytesMax: 1_000_000 })
    expect(collected?.withoutHistory).toEqual([ids[0], ids[3], ids[1], ids[2]])
  }
  await worker.close()
  await store.close()
})
