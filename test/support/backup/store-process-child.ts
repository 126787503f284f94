import type { BackupDestination } from '../../../src/backup/archiver/backup-destination.ts'
import { ChangeTracker } from '../../../src/backup/changes/change-tracker.ts'
import type { CellCuts } from '../../../src/backup/changes/log/cell-cuts.ts'
import { OpenCellCuts } from '../../../src/backup/changes/log/cell-cutter.ts'
import { BackupProgressTable } from '../../../src/backup/changes/progress-table.ts'
import { FileObjectStore } from '../../../src/backup/object-store/file/file-object-store.ts'
import { openObjectStore } from '../../../src/backup/object-store/open-object-store.ts'
import { systemClock } from '../../../src/base/clock.ts'
import { CellDatabase } from '../../../src/engine/cell-database.ts'
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
  return cut.call(this, database, version)
}

/** The engine's view of a cell, which a store shows nobody. */
function opened(cellId: string): CellDatabase {
  let database: CellDatabase | undefined
  const { sql } = CellDatabase.prototype
  CellDatabase.prototype.sql = function (this: CellDatabase, ...rest) {
    database = this
    return sql.apply(this, rest)
  } as typeof sql
  store.openCell(cellId).sql('PRAGMA user_version')
  CellDatabase.prototype.sql = sql
  return database as unknown as CellDatabase
}

/** As an archiver in another process asks for it: the cell may be closed between two calls. */
async function withCuts<T>(cellId: string, ask: (cuts: CellCuts) => Promise<T>): Promise<T> {
  const { trackers } = store.core.destination as BackupDestination
  const database = opened(cellId)
  return await ask(new OpenCellCuts(database, trackers.get(cellId), store.clock))
}

async function obey(order: StoreOrder): Promise<unknown> {
  switch (order.do) {
    case 'open':
      gated = new GatedStore(
        order.objects.startsWith('s3:')
          ? openObjectStore(order.objects, { clock: systemClock, dataDir: order.data })
          : new FileObjectStore({ root: order.objects }),
      )
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
    case 'begin base':
      return await withCuts(order.cellId, (cuts) => cuts.beginBase(false))
    case 'end base':
      return await withCuts(order.cellId, (cuts) => cuts.endBase(order.id, order.version))
    case 'base stored':
      return await withCuts(order.cellId, (cuts) => cuts.stored(order.backup))
    case 'forget rows':
      BackupProgressTable.prototype.save = () => {}
      return undefined
    case 'prune':
      return await store.retention?.prune(order.cellId)
    case 'verify':
      return await store.backups.verify(order.cellId)
    case 'purge':
      return await store.purgeCell(order.cellId)
    case 'sweep':
      return await gated.sweepUploads('', Date.UTC(2100, 0))
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
