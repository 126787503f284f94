import { z } from 'zod'
import type { BackupResult } from '../backup/versions/backup-types.ts'
import { cellNotFound } from '../catalog/cell-registry.ts'
import { type CellErrorCode, isCellError } from '../errors.ts'
import { anyBody, archiveAction, archiveActionWith, cellActionWith, ok } from './action.ts'
import { text } from './fields.ts'
import { Query } from './query.ts'
import { timeOf } from './time.ts'

export const backUp = cellActionWith(anyBody, async ({ context, cellId }) =>
  ok(encodeBackup(await context.service.backup(cellId, 'snapshot'))),
)

export const backUpIncrement = cellActionWith(anyBody, async ({ context, cellId }) => {
  const result = await context.service.backup(cellId, 'incremental')
  return ok({ ...encodeBackup(result), base_version: result.baseVersion })
})

export const restore = archiveActionWith(
  z.object({ version: text.optional() }),
  async (call, { version }) => {
    const { context, accountId, cellId, cell } = call
    try {
      const result = await context.service.restore(cellId, { accountId, version })
      const { kind, sizeBytes, durationMs } = result
      return ok({
        restored: true,
        version: result.version,
        kind,
        size_bytes: sizeBytes,
        duration_ms: roundMs(durationMs),
      })
    } catch (error) {
      throw cell === undefined ? hideUnknown(error) : error
    }
  },
)

export const listBackups = archiveAction(async ({ context, request, accountId, cellId, cell }) => {
  const { service, store, limits } = context
  const list = async () => {
    const query = new Query(request.query)
    const limit = query.limit(limits.pageDefault, store.settings.limits.pageMax)
    return await service.listBackups(cellId, { cursor: query.text('cursor'), limit, accountId })
  }
  const { backups, nextCursor } = await list().catch((error) => {
    throw cell === undefined ? hideUnknown(error) : error
  })
  return ok({
    backups: backups.map(({ version, kind, sizeBytes, createdAt, baseVersion }) => ({
      version,
      kind,
      size_bytes: sizeBytes,
      created_at: timeOf(createdAt),
      base_version: baseVersion,
    })),
    next_cursor: nextCursor,
  })
})

const TELLING: readonly CellErrorCode[] = ['backup_not_found', 'invalid_version', 'invalid_request']

/** Nobody may learn from the kind of refusal whether a cell that is not theirs exists. */
function hideUnknown(error: unknown): unknown {
  return TELLING.some((code) => isCellError(error, code)) ? cellNotFound() : error
}

function encodeBackup({ version, kind, sizeBytes, sha256, createdAt, durationMs }: BackupResult) {
  return {
    version,
    kind,
    size_bytes: sizeBytes,
    sha256,
    created_at: timeOf(createdAt),
    duration_ms: roundMs(durationMs),
  }
}

function roundMs(durationMs: number): number {
  return Math.round(durationMs * 1_000) / 1_000
}
