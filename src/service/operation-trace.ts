import { channels, traced } from '../base/async/channels.ts'
import type { ExecuteOptions } from './cell-service.ts'
import { type CellOperation, routeOf } from './operations.ts'

/** Runs an operation that subscribers of its channel are told of. */
export function tracedOperation<T>(
  cellId: string,
  operation: CellOperation,
  { requestId }: ExecuteOptions,
  run: () => Promise<T>,
): Promise<T> {
  return traced(channels.operation, () => ({ cellId, op: routeOf(operation), requestId }), run)
}
