import type {
  BackupKind,
  BackupList,
  BackupResult,
  MakeBackupOptions,
} from '../../backup/versions/backup-types.ts'
import { definedOnly } from '../../base/options/option-shapes.ts'
import { durationOf, timeOf } from '../../service/json/time.ts'
import type { BackupDocument, BackupPageDocument } from '../answers/backup-answers.ts'
import {
  type Action,
  archiveActionWithQuery,
  cellActionWith,
  emptyBody,
  ok,
  readBackups,
} from '../core/action.ts'
import { transfer } from '../core/transfer.ts'

export const backUp = backUpAs('snapshot')

export const backUpIncrement = backUpAs('incremental')

function backUpAs(kind: BackupKind): Action {
  return cellActionWith(emptyBody, async (call) => {
    const { context, cellId, accountId } = call
    const { service, backupCharges, keptBackups } = context
    const origin = accountId === undefined ? 'owner' : 'tenant'
    const backup = (options: MakeBackupOptions) => service.backups[kind](cellId, { ...options, origin })
    if (accountId === undefined) return ok(encodeBackup(await transfer(call, backup)))
    const cellBytes = async () => (await service.describe(cellId)).sizeBytes
    const counted = (onProgress: MakeBackupOptions['onProgress']) => {
      const run = () => transfer(call, (options) => backup({ ...options, onProgress }))
      return keptBackups === undefined ? run() : keptBackups.run(accountId, cellId, run)
    }
    return ok(encodeBackup(await backupCharges.run(accountId, cellBytes, counted)))
  })
}

export const listBackups = archiveActionWithQuery(['cursor', 'limit'], async (call, query) => {
  const { context, accountId, cellId } = call
  const { service, store, limits } = context
  const limit = query.limit(limits.pageDefault, store.settings.limits.pageMax)
  const page = definedOnly({ cursor: query.text('cursor'), limit, accountId })
  const list = await readBackups(call, async (signal) => {
    // Only the object store can say whether there is such a cell.
    if (call.cell === undefined && accountId !== undefined) context.backupCharges.beginRead(accountId)
    return await service.backups.list(cellId, { ...page, signal })
  })
  return ok(encodeBackupPage(list))
})

function encodeBackup(result: BackupResult): BackupDocument {
  const { version, kind, sizeBytes, sha256, createdAt, durationMs, baseVersion } = result
  return {
    version,
    kind,
    size_bytes: sizeBytes,
    sha256,
    created_at: timeOf(createdAt),
    duration_ms: durationOf(durationMs),
    ...(kind === 'incremental' ? { base_version: baseVersion } : {}),
  }
}

function encodeBackupPage({ backups, nextCursor, restorable }: BackupList): BackupPageDocument {
  return {
    backups: backups.map(({ version, kind, sizeBytes, createdAt, baseVersion }) => ({
      version,
      kind,
      size_bytes: sizeBytes,
      created_at: timeOf(createdAt),
      base_version: baseVersion,
    })),
    next_cursor: nextCursor,
    restorable: restorable.map(({ from, to }) => ({ from: timeOf(from), to: timeOf(to) })),
  }
}
