import type { BackupDestination } from '../../backup/archiver/backup-destination.ts'
import { objectStoreNotConfigured } from '../../backup/backup-manager.ts'
import { CALL, type CallOptions } from '../../backup/object-store/object-store.ts'
import type { VerificationTable } from '../../backup/verify/verification-table.ts'
import type { Log } from '../../base/log.ts'
import { checkOptions } from '../../base/options/option-shapes.ts'
import { type CellRegistry, cellNotFound } from '../../catalog/cell-registry.ts'
import { CellError } from '../../errors.ts'
import type { PurgedCell } from './cell-directory.ts'

interface PurgeParts {
  destination: Pick<BackupDestination, 'restores' | 'retention' | 'settled'> | undefined
  registry: CellRegistry
  verifications: Pick<VerificationTable, 'remove'> | undefined
  settings: { log: Log }
}

/** @throws as `CellDirectory.purgeCell` */
export async function purgeDeleted(
  { destination, registry, verifications, settings: { log } }: PurgeParts,
  id: string,
  options: CallOptions,
): Promise<PurgedCell> {
  checkOptions(options, CALL)
  if (destination === undefined) throw objectStoreNotConfigured()
  const record = registry.find(id)
  if (record === undefined) throw cellNotFound()
  if (record.deletedAt === null) {
    const message = 'The cell exists. Only what is left of a deleted cell can be purged.'
    throw new CellError('invalid_request', message, { field: 'id' })
  }
  const { restores, retention } = destination
  const removed = await restores.purge(id, async () => {
    // A backup that was cut before the deletion may be on its way. None can begin now.
    await destination.settled(id, options)
    const gone = await retention.purge(id, options)
    // Damage that was found after the deletion.
    verifications?.remove(id)
    // Its id stays known as that of a deleted cell.
    registry.eraseName(id)
    return gone
  })
  log.info({ cellId: id, ...removed }, 'what was left of a deleted cell is removed')
  return { id, ...removed }
}
