import * as z from 'zod'
import { count, nextCursor, time, uuid } from '../../service/json/answer-fields.ts'
import { noted } from '../../service/json/schema-notes.ts'
import { backupKind } from './backup-answers.ts'

/** The answers of the routes for cells. The encoders have their types. */

export const cellAnswer = noted(z.object({ id: uuid, name: z.string().nullable(), created_at: time }), {
  id: 'Cell',
})

const known = {
  backed_up_to: noted(time.nullable(), {
    description:
      'Everything that the cell committed before it is in the object store, as far as this server knows; null if nothing is.',
  }),
  last_stored_at: noted(time.nullable(), {
    description: 'When this server last stored a backup of the cell, as far as it knows.',
  }),
  last_proven: noted(z.object({ version: z.string(), proven_at: time }).nullable(), {
    description: 'The version that the server has last restored to prove it.',
  }),
}

const listedCellAnswer = noted(
  cellAnswer.extend({
    ...known,
    status: noted(z.enum(['ok', 'quarantined']).optional(), {
      description: 'Absent of a cell that was deleted.',
    }),
    size_bytes: count,
    deleted_at: noted(time.optional(), { description: 'Of a cell that was deleted.' }),
  }),
  { id: 'ListedCell' },
)
export const cellPageAnswer = z.object({ databases: z.array(listedCellAnswer), next_cursor: nextCursor })

export const describedCellAnswer = noted(
  cellAnswer.extend({
    ...known,
    status: z.enum(['ok', 'quarantined']),
    quarantine: z.object({ reason: z.enum(['io_error', 'damaged']), since: time }).optional(),
    size_bytes: count,
    last_backup: z.object({ version: z.string(), kind: backupKind, created_at: time }).nullable(),
    last_backup_unknown: noted(z.literal(true).optional(), {
      description: 'The object store did not say which backup is the last one.',
    }),
    node: noted(z.object({ id: uuid, address: z.string() }).optional(), {
      description: 'The node that has the cell, where there are several.',
    }),
  }),
  { id: 'CellDescription' },
)

export const deletedCellAnswer = z.object({ id: uuid, deleted: z.literal(true) })

export type ListedCellDocument = z.infer<typeof listedCellAnswer>
export type CellSummaryDocument = z.infer<typeof cellAnswer>
export type DescribedCellDocument = z.infer<typeof describedCellAnswer>
export type DeletedCellDocument = z.infer<typeof deletedCellAnswer>
