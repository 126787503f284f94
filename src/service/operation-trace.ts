import { channels, traced } from '../base/channels.ts'
import type { ExecuteOptions } from './cell-service.ts'
import type { CellOperation } from './operations.ts'

/** Runs an operation that subscribers of its channel are told of. */
export function tracedOperation<T>(
  cellId: string,
  operation: CellOperation,
  { requestId }: ExecuteOptions,
  run: () => Promise<T>,
): Promise<T> {
  const op = operation.op === 'unread' ? operation.kind : operation.op
  return traced(channels.operation, () => ({ cellId, op, requestId }), run)
}
