import { mayChange, type ParsedOperation, parseOperation } from '../../service/apply-operation.ts'
import type { readUnread } from '../../service/json/requests.ts'
import type { CellOperation } from '../../service/operations.ts'
import type { BatchCell } from '../protocol/protocol.ts'

type Reader = typeof readUnread

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

export interface ParsedCell {
  cellId: string
  operations: Runnable[]
}

/**
 * Parses the operations of a batch, and reads the bodies that the node has not read.
 *
 * @param read needed if the batch {@link hasUnread} operations
 * @param reading called before a body is read, with the operation's number: a large one takes long
 */
export function parseBatch(
  cells: readonly BatchCell[],
  read: Reader | undefined,
  reading: (index: number) => void,
): ParsedCell[] {
  let index = 0
  const parse = (operation: CellOperation): Runnable => {
    const at = index++
    if (operation.op !== 'unread') return parseOperation(operation)
    reading(at)
    try {
      const { operation: request, timeoutMs } = (read as Reader)(operation)
      return { ...parseOperation(request), statementMs: timeoutMs }
    } catch (error) {
      return new Refused(error)
    }
  }
  return cells.map(({ cellId, operations }) => ({ cellId, operations: operations.map(parse) }))
}

export function hasUnread(cells: readonly BatchCell[]): boolean {
  return cells.some(({ operations }) => operations.some(({ op }) => op === 'unread'))
}

/** What reads bodies takes long to load, and most workers never need it. */
export async function loadReader(): Promise<Reader> {
  return (await import('../../service/json/requests.ts')).readUnread
}

/** Whether any of them can change the cell. */
export function hasChange(operations: readonly Runnable[]): boolean {
  return operations.some((operation) => !(operation instanceof Refused) && mayChange(operation))
}
