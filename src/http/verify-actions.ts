import { z } from 'zod'
import type { VerifyResult } from '../backup/verify/verify-types.ts'
import { flag, text } from '../service/json/fields.ts'
import { durationOf, timeOf } from '../service/json/time.ts'
import { archiveActionWith, ok, ownerAction } from './action.ts'
import { transfer } from './transfer.ts'

/** Proves that a version can be restored: for the store's owner alone. The store's own id stands for the catalog. */
export const verify = archiveActionWith(
  z.strictObject({ version: text.optional(), deep: flag.optional() }),
  async (call, { version, deep }) => {
    const { service } = call.context
    return ok(
      encodeVerified(
        await transfer(call, (options) => service.verify(call.cellId, { ...options, version, deep })),
      ),
    )
  },
)

/** Whose backups can be verified: every cell of the listing, and the catalog under this id. */
export const getStore = ownerAction(({ context: { store } }) => ok({ id: store.id }))

export type VerifyDocument = ReturnType<typeof encodeVerified>
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
