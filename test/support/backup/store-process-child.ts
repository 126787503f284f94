import { ChangeTracker } from '../../../src/backup/changes/change-tracker.ts'
import { BackupProgressTable } from '../../../src/backup/changes/progress-table.ts'
import { FileObjectStore } from '../../../src/backup/object-store/file/file-object-store.ts'
import { CellStore } from '../../../src/store/cell-store.ts'
import { FakeClock } from '../fake-clock.ts'
import { digestOf } from './database-digest.ts'
import { GatedStore } from './object-store-decorators.ts'
import type { StoreAnswer, StoreOrder } from './store-process.ts'

/** The other end of StoreProcess. */
let store: CellStore
let gated: GatedStore

function tell(answer: StoreAnswer): void {
  process.send?.(answer)
}

const { cut } = ChangeTracker.prototype
ChangeTracker.prototype.cut = function (this: ChangeTracker, database, version) {
  const { cellId } = this.progress
  if (cellId !== store.id) tell({ attempt: { version, digest: digestOf(store.openCell(cellId)) } })
  cut.call(this, database, version)
}

async function obey(order: StoreOrder): Promise<unknown> {
  switch (order.do) {
    case 'open':
      gated = new GatedStore(new FileObjectStore({ root: order.objects }))
      store = await CellStore.open(order.data, {
        objectStore: gated,
        clock: new FakeClock(order.now),
        ...order.settings,
      })
      return undefined
    case 'sql':
      return store.openCell(order.cellId).sql(order.sql, order.params).changes
    case 'snapshot':
      return await store.backups.snapshot(order.cellId)
    case 'incremental':
      return await store.backups.incremental(order.cellId)
    case 'backup until put':
      gated.gates = (call, key) => call === 'put' && key.includes(order.cellId)
      store.backups.incremental(order.cellId).catch(() => {})
      return await gated.arrival()
    case 'forget rows':
      BackupProgressTable.prototype.save = () => {}
      return undefined
    case 'close':
      await store.close()
      setImmediate(() => process.disconnect())
      return undefined
  }
}

process.on('message', (order: StoreOrder) => {
  obey(order).then(
    (result) => tell({ result }),
    (error) => tell({ error: `${error.code ?? ''} ${error.message}` }),
  )
})
