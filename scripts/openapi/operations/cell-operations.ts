import * as z from 'zod'
import {
  cellAnswer,
  cellPageAnswer,
  deletedCellAnswer,
  describedCellAnswer,
} from '../../../src/http/answers/cell-answers.ts'
import { noted } from '../../../src/service/json/schema-notes.ts'
import type { Operations } from '../operation.ts'
import { PAGE_QUERY } from './common.ts'

const IDEMPOTENCY_KEY = {
  'Idempotency-Key': noted(z.string(), {
    description:
      '1–255 printable ASCII characters. For 24 hours the same key with the same body gets the first answer again.',
  }),
}

/** Cells of an account. */
export const CELL_OPERATIONS: Operations = {
  'POST /v1/databases': {
    id: 'createCell',
    tag: 'Cells',
    summary:
      'Make a cell: an empty one, one with a state of another cell, or one with the content of a database',
    query: {
      name: noted(z.string(), {
        description: 'The name: for a body that is a database, which has no fields.',
      }),
    },
    file: true,
    headers: IDEMPOTENCY_KEY,
    status: 201,
    answer: cellAnswer,
    answerHeaders: {
      Location: 'The path of the cell.',
      'Idempotent-Replayed': 'true, if this is the first answer again.',
    },
    codes: [
      'backup_corrupt',
      'backup_not_found',
      'cell_full',
      'cell_not_found',
      'cells_missing',
      'disk_full',
      'idempotency_in_progress',
      'not_replicated',
      'idempotency_key_reused',
      'idempotency_not_supported',
      'invalid_database',
      'invalid_version',
      'name_taken',
      'no_backup',
      'object_store_error',
      'object_store_not_configured',
      'object_store_unavailable',
      'quota_exceeded',
    ],
  },
  'GET /v1/databases': {
    id: 'listCells',
    tag: 'Cells',
    summary: 'List the cells of the account, oldest first',
    query: {
      name: noted(z.string(), { description: 'Only the cell of this name.' }),
      deleted: noted(z.boolean(), {
        description: 'The cells that were deleted, in place of those that exist.',
      }),
      ...PAGE_QUERY,
    },
    answer: cellPageAnswer,
  },
  'GET /v1/databases/{id}': {
    id: 'getCell',
    tag: 'Cells',
    summary: 'Describe a cell',
    answer: describedCellAnswer,
  },
  'PATCH /v1/databases/{id}': {
    id: 'renameCell',
    tag: 'Cells',
    summary: 'Rename a cell',
    answer: cellAnswer,
    codes: ['name_taken'],
  },
  'GET /v1/databases/{id}/export': {
    id: 'exportCell',
    tag: 'Cells',
    summary: 'Read the cell as one SQLite file',
    answerHeaders: { 'Content-Disposition': 'A name for the file.' },
  },
  'DELETE /v1/databases/{id}': {
    id: 'deleteCell',
    tag: 'Cells',
    summary: 'Delete a cell; its backups stay',
    answer: deletedCellAnswer,
  },
}
