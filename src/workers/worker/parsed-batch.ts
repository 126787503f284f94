import {
  mayChange,
  type ParsedOperation,
  parseOperation,
  parseRequest,
} from '../../service/apply-operation.ts'
import type { CellOperation, CellRequest } from '../../service/operations.ts'
import { type ReadBounds, readRequest } from '../../service/requests/cell-routes.ts'
import type { BatchCell } from '../protocol/protocol.ts'

/** A request that is not what it should be. */
export class Refused {
  readonly error: unknown

  constructor(error: unknown) {
    this.error = error
  }
}

export type Runnable = ParsedOperation | Refused

/** Read, or a long request that nobody has read yet. */
export type Queued = Runnable | UnreadRequest

type UnreadRequest = CellRequest & CellOperation

export interface ParsedCell {
  cellId: string
  operations: Queued[]
}

/** A longer body takes long enough to be read in its cell's time, just before it runs. */
const LONG_BODY_BYTES = 16_384

/** Reads the requests of a batch, but for long ones. */
export function parseBatch(cells: readonly BatchCell[], bounds: ReadBounds): ParsedCell[] {
  const parse = (operation: CellOperation): Queued => {
    if (operation.op !== 'request') return parseOperation(operation)
    const { body } = operation
    return body !== undefined && body.length > LONG_BODY_BYTES ? operation : readNow(operation, bounds)
  }
  return cells.map(({ cellId, operations }) => ({ cellId, operations: operations.map(parse) }))
}

export function readNow(request: UnreadRequest, bounds: ReadBounds): Runnable {
  try {
    return parseRequest(request, readRequest(request, bounds))
  } catch (error) {
    return new Refused(error)
  }
}

export function isUnread(operation: Queued): operation is UnreadRequest {
  return !(operation instanceof Refused) && operation.op === 'request'
}

/** Whether any of them can change the cell: one that nobody has read may. */
export function hasChange(operations: readonly Queued[]): boolean {
  return operations.some((each) => isUnread(each) || (!(each instanceof Refused) && mayChange(each)))
}
