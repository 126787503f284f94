import type { EpochGuard } from '../fence/epoch-guard.ts'
import { FencedObjectStore } from '../fence/fenced-object-store.ts'
import type { ObjectStore } from '../object-store/object-store.ts'
import { Shipper, type ShippingSettings } from '../shipping/shipper.ts'
import type { ShippingState } from '../shipping/shipping-status.ts'
import { LogRetention, type StoredLogs, VersionCover } from '../shipping/stored/log-retention.ts'
import { readLogManifest } from '../shipping/stored/stored-log.ts'
import type { BackupDestination } from './backup-destination.ts'
import type { CellPort } from './cell-port.ts'

/** How an archiver ships what its cells commit. */
export interface ShippingParts extends ShippingSettings {
  /** How long moments can be restored. */
  historyMs: number
  guard: EpochGuard
  random: () => number
  /** Called after each tick. */
  onState?: ((state: ShippingState) => void) | undefined
}

export function newShipper(
  { guard, random, onState = () => {}, historyMs, ...settings }: ShippingParts,
  destination: BackupDestination,
  cells: CellPort,
): Shipper {
  const { objectStore, storeOf, storeId, index, claim, clock } = destination
  const logOf = (store: ObjectStore): StoredLogs => ({
    objectStore: store,
    readManifest: async (stored) => (await readLogManifest(store, stored, storeId)).manifest,
  })
  const retention = new LogRetention({
    ...destination,
    ...logOf(objectStore),
    // Each removal follows a look at this node's own fence.
    left: async () =>
      (await cells.logsLeft()).map((prefix) => logOf(new FencedObjectStore(storeOf(prefix), guard, clock))),
    horizon: () => destination.horizon.of(historyMs),
    newCover: (horizon) => new VersionCover(index, horizon),
    isDeleted: (cellId, committedAt) => cells.isDeleted(cellId, committedAt),
    needsBase: (cellId) => cells.needsBase(cellId, 'old log objects'),
  })
  return new Shipper({
    ...destination,
    settings,
    epoch: guard,
    claim: (signal) => claim.ensure(signal),
    cells,
    retention,
    onState,
    random,
  })
}
