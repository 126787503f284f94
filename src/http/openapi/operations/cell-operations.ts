import { z } from 'zod'
import { noted } from '../../../service/json/schema-notes.ts'
import {
  cellAnswer,
  cellPageAnswer,
  deletedCellAnswer,
  describedCellAnswer,
} from '../../answers/cell-answers.ts'
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
    summary: 'Make a cell',
    headers: IDEMPOTENCY_KEY,
    status: 201,
    answer: cellAnswer,
    answerHeaders: {
      Location: 'The path of the cell.',
      'Idempotent-Replayed': 'true, if this is the first answer again.',
    },
    codes: [
      'cell_not_found',
      'cells_missing',
      'disk_full',
      'idempotency_in_progress',
      'idempotency_key_reused',
      'quota_exceeded',
    ],
  },
  'GET /v1/databases': {
    id: 'listCells',
    tag: 'Cells',
    summary: 'List the cells of the account, oldest first',
    query: PAGE_QUERY,
    answer: cellPageAnswer,
  },
  'GET /v1/databases/{id}': {
    id: 'getCell',
    tag: 'Cells',
    summary: 'Describe a cell',
    answer: describedCellAnswer,
  },
  'DELETE /v1/databases/{id}': {
    id: 'deleteCell',
    tag: 'Cells',
    summary: 'Delete a cell; its backups stay',
    answer: deletedCellAnswer,
  },
}
