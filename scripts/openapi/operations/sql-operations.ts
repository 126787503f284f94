import type { CellErrorCode } from '../../../src/errors.ts'
import { batchAnswer } from '../../../src/service/json/batch-body.ts'
import { sqlAnswer } from '../../../src/service/json/sql-answers.ts'
import type { Operations } from '../operation.ts'
import { INCREMENTS, PUTS, WRITES } from './common.ts'

export const STATEMENTS: readonly CellErrorCode[] = [
  ...WRITES,
  'sql_error',
  'sql_too_long',
  'multiple_statements',
  'param_count_mismatch',
  'invalid_parameter',
  'statement_not_allowed',
  'statement_timeout',
  'constraint_violation',
  'result_too_large',
  'result_memory_exceeded',
  'transaction_too_large',
]

/** SQL in a cell. */
export const SQL_OPERATIONS: Operations = {
  'POST /v1/databases/{id}/sql': {
    id: 'sql',
    tag: 'SQL',
    summary: 'Run one statement',
    answer: sqlAnswer,
    codes: STATEMENTS,
  },
  'POST /v1/databases/{id}/batch': {
    id: 'batch',
    tag: 'SQL',
    summary: 'Run statements and KV operations in one transaction, all or none',
    answer: batchAnswer,
    codes: [...STATEMENTS, ...PUTS, ...INCREMENTS, 'precondition_failed'],
  },
}
