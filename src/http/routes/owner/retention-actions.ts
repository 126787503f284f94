import * as z from 'zod'
import { objectStoreNotConfigured } from '../../../backup/backup-manager.ts'
import type { PruneResult } from '../../../backup/versions/retention/pruner.ts'
import type { Retention } from '../../../backup/versions/retention/retention.ts'
import { cellNotFound } from '../../../catalog/cell-registry.ts'
import { CellError } from '../../../errors.ts'
import { flag, text } from '../../../service/json/fields.ts'
import { timeOf } from '../../../service/json/time.ts'
import type { PurgedCell } from '../../../store/cells/cell-directory.ts'
import type { PinDocument, RetentionDocument } from '../../answers/backup-answers.ts'
import { type ArchiveCall, archiveAction, archiveActionWith, ok, readBackups } from '../../core/action.ts'
import { whileConnected } from '../../core/http-message.ts'

/** Which versions of a cell stay. Its account may look; only the store's owner changes it. */

/** What the plans say of each version. */
export const getRetention = archiveAction(async (call) => {
  const retention = retentionOf(call)
  const judged = await readBackups(call, (signal) => retention.prune(call.cellId, { dryRun: true, signal }))
  return ok(encodePruned(judged))
})

export const prune = archiveActionWith(
  z.strictObject({ dry_run: flag.optional() }),
  async (call, { dry_run }) => {
    const pruned = await whileConnected(call.request, (signal) =>
      retentionOf(call).prune(call.cellId, { dryRun: dry_run === true, signal }),
    )
    return ok(encodePruned(pruned))
  },
)

/** The id once more in the body: what a purge removes, nobody brings back. */
export const purge = archiveActionWith(z.strictObject({ confirm: text }), async (call, { confirm }) => {
  if (confirm !== call.cellId) {
    throw new CellError('invalid_request', 'confirm must be the id of the cell.', { field: 'confirm' })
  }
  const { store } = call.context
  const purged = await whileConnected(call.request, (signal) => store.purgeCell(call.cellId, { signal }))
  return ok(encodePurged(purged))
})

export const pin = archiveActionWith(z.strictObject({ version: text }), async (call, { version }) => {
  await whileConnected(call.request, (signal) => retentionOf(call).pin(call.cellId, version, { signal }))
  return ok({ version, pinned: true } satisfies PinDocument)
})

export const unpin = archiveActionWith(z.strictObject({ version: text }), async (call, { version }) => {
  await retentionOf(call).unpin(call.cellId, version)
  return ok({ version, pinned: false } satisfies PinDocument)
})

export const getPlan = archiveAction(async (call) => ok(await planOf(call)))

/** A plan of the cell's own; null: the store's holds again. */
export const setPlan = archiveActionWith(
  z.strictObject({ plan: text.nullable() }),
  async (call, { plan }) => {
    try {
      await retentionOf(call).setPlan(call.cellId, plan)
    } catch (error) {
      if (!(error instanceof CellError) || error.code !== 'invalid_setting') throw error
      throw new CellError('invalid_request', error.message, { field: 'plan' })
    }
    return ok(await planOf(call))
  },
)

export type PurgeDocument = ReturnType<typeof encodePurged>
export type PlanDocument = Awaited<ReturnType<typeof planOf>>

async function planOf(call: ArchiveCall) {
  return { id: call.cellId, plan: (await retentionOf(call).ownPlan(call.cellId)) ?? null }
}

function encodePruned({ plan, tenantPlan, versions }: PruneResult): RetentionDocument {
  return {
    plan,
    tenant_plan: tenantPlan,
    versions: versions.map(({ version, sizeBytes, createdAt, markedAt, ...judged }) => ({
      version,
      size_bytes: sizeBytes,
      created_at: timeOf(createdAt),
      origin: judged.origin,
      restorable: judged.restorable,
      action: judged.action,
      reason: judged.reason,
      step: judged.step,
      marked_at: timeOf(markedAt),
    })),
  }
}

function encodePurged({ id, objects, bytes }: PurgedCell) {
  return { id, purged: true, objects, bytes }
}

/** @throws `object_store_not_configured`, `cell_not_found` for an account whose cell it is not */
function retentionOf({ context: { store }, accountId, cell }: ArchiveCall): Retention {
  if (accountId !== undefined && cell === undefined) throw cellNotFound()
  if (store.retention === undefined) throw objectStoreNotConfigured()
  return store.retention
}
