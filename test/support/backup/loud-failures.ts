import { CellError, type CellErrorCode } from '../../../src/errors.ts'

/** How a node with a failing bucket may refuse: loudly. Any other error is a bug. */
const LOUD: readonly CellErrorCode[] = [
  'object_store_unavailable',
  'object_store_error',
  'object_store_mismatch',
  'object_store_in_use',
  'not_replicated',
  'taken_over',
  'store_closed',
  'store_not_found',
  'backup_corrupt',
  'cell_restoring',
  'busy',
]

export function assertLoud(error: unknown): void {
  if (!(error instanceof CellError) || !LOUD.includes(error.code)) throw error
}
