import * as z from 'zod'
import type { KeepReason } from '../../backup/versions/retention/retention-verdicts.ts'
import { count, duration, nextCursor, time, uuid } from '../../service/json/answer-fields.ts'
import { noted } from '../../service/json/schema-notes.ts'
import { problemAnswer } from './problem-document.ts'

/** The answers of the routes for backups. The encoders have their types. */

export const backupKind = z.enum(['snapshot', 'incremental'])

const version = noted(z.string(), {
  id: 'Version',
  description: 'The key of the stored object, with the cell’s id and a timestamp.',
})
const baseVersion = version.nullable()

export const backupAnswer = noted(
  z.object({
    version,
    kind: backupKind,
    size_bytes: noted(count, { description: 'Of the stored object.' }),
    sha256: noted(z.string().regex(/^[0-9a-f]{64}$/), { description: 'Of the stored object.' }),
    created_at: time,
    duration_ms: duration,
    base_version: baseVersion.optional(),
  }),
  { id: 'Backup' },
)

export const restoreAnswer = noted(
  z.object({
    restored: z.literal(true),
    version,
    kind: backupKind,
    size_bytes: noted(count, { description: 'Of the restored database.' }),
    duration_ms: duration,
    timestamp: noted(time.nullable(), { description: 'Of the last commit that was restored.' }),
    replaced_at: noted(time.nullable(), {
      description: 'A restore to this time brings the replaced state back. Null if nothing can.',
    }),
  }),
  { id: 'RestoreResult' },
)

/** What a restore would do. */
export const restorePlanAnswer = noted(
  z.object({
    restored: z.literal(false),
    version: noted(z.string(), { description: 'The version that the restore would begin with.' }),
    kind: backupKind,
    timestamp: noted(time, { description: 'Of the last commit that would be restored.' }),
    objects: noted(z.array(z.object({ key: z.string(), size_bytes: count })), {
      description: 'The objects that the restore would read, in their order, and how much of each.',
    }),
    size_bytes: noted(count, { description: 'Of all of them.' }),
    log_size_bytes: noted(count, { description: 'Of those of them that were stored after the version.' }),
  }),
  { id: 'RestorePlan' },
)

export const restoreStatusAnswer = noted(
  z.object({
    id: uuid,
    state: noted(z.enum(['running', 'succeeded', 'failed']), {
      description: 'running also while it waits for its turn.',
    }),
    bytes_done: count,
    bytes_total: noted(count.nullable(), { description: 'Null until it is known.' }),
    eta_ms: noted(z.number().min(0).nullable(), {
      description: 'Milliseconds that the rest of the download will take; null while nobody knows.',
    }),
    started_at: time,
    ended_at: time.nullable(),
    result: restoreAnswer.nullable(),
    problem: problemAnswer.nullable(),
  }),
  { id: 'RestoreStatus' },
)

export const backupPageAnswer = z.object({
  backups: z.array(
    z.object({
      version,
      kind: backupKind,
      size_bytes: count,
      created_at: time,
      base_version: baseVersion,
    }),
  ),
  next_cursor: nextCursor,
  restorable: noted(z.array(z.object({ from: time, to: time })), {
    description:
      'The times to which the cell can be restored from the versions on this page, newest first. Between two of them it can not.',
  }),
})

export const pinAnswer = z.object({ version, pinned: z.boolean() })

const REASONS = [
  'pinned',
  'current',
  'proven',
  'unproven',
  'spare',
  'history',
  'damaged',
  'needed',
  'plan',
] as const satisfies readonly KeepReason[]

export const retentionAnswer = noted(
  z.object({
    plan: noted(z.string(), { description: 'For the versions that the node or its owner made.' }),
    tenant_plan: noted(z.string(), { description: 'For those that were requested with a key.' }),
    versions: z.array(
      z.object({
        version,
        size_bytes: count,
        created_at: time,
        origin: noted(z.enum(['schedule', 'owner', 'tenant']), { description: 'Who made it.' }),
        restorable: noted(z.boolean(), {
          description: 'False: it is known to be damaged, or what it rests on is damaged or missing.',
        }),
        action: noted(z.enum(['keep', 'mark', 'wait', 'remove']), {
          description:
            'mark: it goes in a day; wait: it was marked less than a day ago; remove: it goes next.',
        }),
        reason: noted(z.enum(REASONS).nullable(), {
          description: 'Why it stays; null if nothing keeps it.',
        }),
        step: noted(z.string().nullable(), { description: 'The step of the plan that keeps it.' }),
        marked_at: time.nullable(),
      }),
    ),
  }),
  { id: 'Retention' },
)

export type BackupDocument = z.infer<typeof backupAnswer>
export type RestoreDocument = z.infer<typeof restoreAnswer>
export type RestorePlanDocument = z.infer<typeof restorePlanAnswer>
export type RestoreStatusDocument = z.infer<typeof restoreStatusAnswer>
export type BackupPageDocument = z.infer<typeof backupPageAnswer>
export type PinDocument = z.infer<typeof pinAnswer>
export type RetentionDocument = z.infer<typeof retentionAnswer>
