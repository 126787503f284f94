import { mayChange, type ParsedOperation, parseOperation } from '../../service/apply-operation.ts'
import { readUnread } from '../../service/json/requests.ts'
import type { CellOperation, UnreadOperation } from '../../service/operations.ts'
import type { BatchCell } from '../protocol/protocol.ts'

/** An operation that was read, with the bound that its request gives its statements. */
export type Readable = ParsedOperation & { statementMs?: number | undefined }

/** An operation whose body is not what it should be. */
export class Refused {
  readonly error: unknown

  constructor(error: unknown) {
    this.error = error
  }
}

export type Runnable = Readable | Refused

/** Parsed, or with a body that the node has not read and nobody has yet. */
export type Queued = Readable | UnreadOperation

export interface ParsedCell {
  cellId: string
  operations: Queued[]
}

/** Parses the operations of a batch, but for those with unread bodies: each of these takes long, and is read in its cell's time. */
export function parseBatch(cells: readonly BatchCell[]): ParsedCell[] {
  const parse = (operation: CellOperation): Queued =>
    operation.op === 'unread' ? operation : parseOperation(operation)
  return cells.map(({ cellId, operations }) => ({ cellId, operations: operations.map(parse) }))
}

export function readBody(operation: UnreadOperation): Runnable {
  try {
    const { operation: request, timeoutMs } = readUnread(operation)
    return { ...parseOperation(request), statementMs: timeoutMs }
  } catch (error) {
    return new Refused(error)
  }
}

/** Whether any of them can change the cell: an unread one may. */
export function hasChange(operations: readonly Queued[]): boolean {
  return operations.some((operation) => operation.op === 'unread' || mayChange(operation))
}
