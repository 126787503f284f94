import * as z from 'zod'
import type { VerifyOptions, VerifyResult } from '../../../backup/verify/verify-types.ts'
import type { BackupOptions } from '../../../backup/versions/backup-types.ts'
import { definedOnly } from '../../../base/options/option-shapes.ts'
import { flag, text } from '../../../service/json/fields.ts'
import { durationOf, timeOf } from '../../../service/json/time.ts'
import { archiveActionWith, ok, ownerAction } from '../../core/action.ts'
import { transfer } from '../../core/transfer.ts'

/** Proves that a version can be restored: for the store's owner alone. The store's own id stands for the catalog. */
export const verify = archiveActionWith(
  z.strictObject({ version: text.optional(), deep: flag.optional() }),
  async (call, { version, deep }) => {
    const { context, cellId } = call
    const prove = (options: BackupOptions) => {
      const asked: VerifyOptions = definedOnly({ ...options, version, deep })
      return context.service.backups.verify(cellId, asked)
    }
    const proven = await transfer(call, prove)
    return ok({ id: cellId, name: context.store.findCell(cellId)?.name ?? null, ...encodeVerified(proven) })
  },
)

/** Whose backups can be verified: every cell of the listing, and the catalog under this id. */
export const getStore = ownerAction(({ context: { store } }) => ok({ id: store.id }))

/** `name` is null for the catalog, and for a cell without one. */
export type VerifyDocument = { id: string; name: string | null } & ReturnType<typeof encodeVerified>
export type StoreDocument = { id: string }

function encodeVerified(result: VerifyResult) {
  const { version, kind, objects, storedBytes, sizeBytes, tableCount, rowCount, tables } = result
  return {
    version,
    kind,
    proven: true as const,
    deep: result.deep,
    objects,
    stored_bytes: storedBytes,
    size_bytes: sizeBytes,
    table_count: tableCount,
    row_count: rowCount,
    tables,
    proven_at: timeOf(result.provenAt),
    duration_ms: durationOf(result.durationMs),
  }
}
