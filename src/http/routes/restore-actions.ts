import * as z from 'zod'
import type {
  BackupProgressEvent,
  PlanOptions,
  RestoreOptions,
  RestorePlan,
  RestoreResult,
} from '../../backup/versions/backup-types.ts'
import { definedOnly } from '../../base/options/option-shapes.ts'
import { cellNotFound } from '../../catalog/cell-registry.ts'
import { CellError } from '../../errors.ts'
import { flag, text } from '../../service/json/fields.ts'
import { decodeTime, durationOf, time, timeOf } from '../../service/json/time.ts'
import type {
  RestoreDocument,
  RestorePlanDocument,
  RestoreStatusDocument,
} from '../answers/backup-answers.ts'
import {
  type Answer,
  type ArchiveCall,
  archiveAction,
  archiveActionWith,
  asShown,
  ok,
  readBackups,
} from '../core/action.ts'
import { transfer } from '../core/transfer.ts'
import type { BegunRestore } from './begun-restores.ts'

/** Restores under the permit of its key. */
type Run = (options: Pick<RestoreOptions, 'signal' | 'onProgress'>) => Promise<RestoreResult>

const ROUTE = '/v1/databases/{id}/restore'

const restoreSchema = z.strictObject({
  version: text.optional(),
  timestamp: time.optional(),
  dry_run: flag.optional(),
})
type RestoreBody = z.infer<typeof restoreSchema>

/** Answers at the end, or at once with where to ask about it if the client prefers that. */
export const restore = archiveActionWith(restoreSchema, async (call, body) => {
  const { context, request, requestId, accountId, cellId } = call
  const wanted = definedOnly({ accountId, ...decodeMoment(body) })
  const charge = accountId === undefined ? undefined : context.backupCharges.beginRead(accountId)
  if (call.cell === undefined) await checkBackups(call)
  if (body.dry_run === true) return await plan(call, wanted)
  checkRoom(call)
  const run: Run = async ({ signal, onProgress: tell }) => {
    const arrival = accountId === undefined ? undefined : context.storedBytes?.arrival(accountId)
    let release = () => {}
    let moved = 0
    const permit = {
      check() {
        call.permit?.check()
        // Many may have been admitted while there was room for one.
        if (accountId === undefined || !comesBack(call)) return
        context.storedBytes?.checkRoomForCell(accountId)
        release = context.store.holdRoomForCell(accountId, cellId)
      },
      checkBuilt(bytes: number) {
        moved = Math.max(moved, bytes)
        arrival?.take(cellId, bytes, context.store.databaseBytes(cellId))
      },
    }
    const onProgress = (event: BackupProgressEvent) => {
      moved = Math.max(moved, event.bytes)
      tell?.(event)
    }
    try {
      const options = { signal, onProgress, permit, requestId, ...wanted }
      const restored = await context.service.backups.restore(cellId, options)
      await context.service.confirmRecord(cellId)
      return restored
    } catch (error) {
      throw asShown(call, error)
    } finally {
      charge?.move(moved)
      arrival?.release()
      release()
    }
  }
  if (prefersAsync(request.header('prefer'))) return await answerAtOnce(call, run)
  return ok(encodeRestore(await transfer(call, run)))
})

/**
 * Only the object store can say whose the cell is. Nothing is checked before that, and the one turn that is waited for is that of
 * the account that asks, as for any id: the answer, or its time, would tell others' cells from absent ones.
 *
 * @throws `cell_not_found`
 */
async function checkBackups(call: ArchiveCall): Promise<void> {
  const { context, accountId, cellId } = call
  await readBackups(call, (signal) =>
    context.service.backups.list(cellId, definedOnly({ accountId, limit: 1, signal })),
  )
}

/** @throws `invalid_request` for a time that is none */
function decodeMoment({ version, timestamp: text }: RestoreBody) {
  const timestamp = text === undefined ? undefined : decodeTime(text, 'timestamp')
  return { version, timestamp }
}

/** What the restore would do. */
async function plan(call: ArchiveCall, options: PlanOptions): Promise<Answer> {
  const { context, cellId } = call
  const planned = await readBackups(call, (signal) =>
    context.service.backups.plan(cellId, { ...options, signal }),
  )
  // For a moment it may have waited for long, until the account could ship.
  call.permit?.check()
  return ok(encodePlan(planned))
}

/** A cell that comes back needs room in its account's quotas. @throws `quota_exceeded` */
function checkRoom(call: ArchiveCall): void {
  const { store, storedBytes } = call.context
  if (call.accountId === undefined || !comesBack(call)) return
  store.checkRoomForCell(call.accountId)
  storedBytes?.checkRoomForCell(call.accountId)
}

function comesBack({ context, cellId }: ArchiveCall): boolean {
  return context.store.findCell(cellId)?.deletedAt !== null
}

/** How far a restore is that was answered before its end. */
export const getRestore = archiveAction((call) => ok(encodeStatus(begunRestore(call))))

/** Cancels it, and answers at its end. One that is over, or beyond its switch, stays what it is. */
export const cancelRestore = archiveAction(async (call) => {
  const restore = begunRestore(call)
  await restore.cancel()
  return ok(encodeStatus(restore))
})

/** @throws `restore_not_found`, `cell_not_found` */
function begunRestore({ context, segments, accountId, cellId, cell }: ArchiveCall): BegunRestore {
  const found = context.restores.find(accountId ?? '', cellId, segments[1] ?? '')
  if (found !== undefined) return found
  if (cell === undefined) throw cellNotFound()
  throw new CellError(
    'restore_not_found',
    'There is no such restore of the cell. Restores are remembered for an hour after their end, and not across a restart.',
  )
}

/** The work goes on without its client, under the key that asked for it. */
async function answerAtOnce(call: ArchiveCall, run: Run): Promise<Answer> {
  const { context, request, requestId, accountId = '', cellId } = call
  const begun = await context.restores.begin(accountId, cellId, {
    run,
    explain: (error) => context.problemOf(error, request.method, ROUTE, requestId),
    atOnce: context.store.turns.next(accountId),
  })
  const headers = {
    // The path that was asked ends in `/restore`.
    Location: `${request.mount}${request.path}s/${begun.id}`,
    'Preference-Applied': 'respond-async',
  }
  return { ...ok(encodeStatus(begun)), status: 202, headers }
}

function encodeRestore(result: RestoreResult): RestoreDocument {
  const { version, kind, sizeBytes, durationMs, timestamp, replacedAt } = result
  return {
    restored: true,
    version,
    kind,
    size_bytes: sizeBytes,
    duration_ms: durationOf(durationMs),
    timestamp: timeOf(timestamp),
    replaced_at: timeOf(replacedAt),
  }
}

function encodePlan({ version, kind, timestamp, objects, ...sizes }: RestorePlan): RestorePlanDocument {
  return {
    restored: false,
    version,
    kind,
    timestamp: timeOf(timestamp),
    objects: objects.map(({ key, sizeBytes }) => ({ key, size_bytes: sizeBytes })),
    size_bytes: sizes.sizeBytes,
    log_size_bytes: sizes.sizeOfLog,
  }
}

function encodeStatus({ id, startedAt, progress, end }: BegunRestore): RestoreStatusDocument {
  const outcome = end?.outcome
  return {
    id,
    state: outcome === undefined ? 'running' : 'result' in outcome ? 'succeeded' : 'failed',
    bytes_done: progress?.bytes ?? 0,
    bytes_total: progress?.total ?? null,
    eta_ms: end === undefined ? (progress?.etaMs ?? null) : null,
    started_at: timeOf(startedAt),
    ended_at: timeOf(end?.at ?? null),
    result: outcome !== undefined && 'result' in outcome ? encodeRestore(outcome.result) : null,
    problem: outcome !== undefined && 'problem' in outcome ? outcome.problem : null,
  }
}

/**
 * Whether the client asks for an answer before the work is done: RFC 7240, `Prefer: respond-async`. Preferences are separated
 * by commas, and a quoted value may hold any text.
 */
export function prefersAsync(header: string | undefined): boolean {
  if (header === undefined) return false
  // A quote that nothing closes takes the rest. So it always matches, and no header is read again from each of its quotes.
  const preferences = header.replaceAll(/"(?:[^"\\]|\\.?)*(?:"|$)/g, '""').split(',')
  return preferences.some((each) => /^\s*respond-async\s*(?:=\s*(?:""\s*)?)?(?:;|$)/i.test(each))
}
