import type { Outcome } from '../../engine/commits/work-group.ts'
import { CellAnswer, type CellOperation } from '../../service/operations.ts'
import type { Envelope } from './messages.ts'
import type { BatchCell, PackedAnswer, PackedCell, PackedOperation, WireOutcome } from './protocol.ts'
import { fromWireError, toWireError } from './wire-error.ts'

/** Bodies of requests and answers travel as parts of messages: see messages.ts. A message with one of a program's own operations is no JSON. */
export class Packing {
  readonly #parts: (Uint8Array | string)[] = []
  #isJson = true

  get envelope(): Omit<Envelope, 'message'> {
    return { parts: this.#parts, isJson: this.#isJson }
  }

  cell({ operations, ...cell }: BatchCell): PackedCell {
    return { ...cell, operations: operations.map((each) => this.#operation(each)) }
  }

  outcome(index: number, outcome: Outcome): WireOutcome {
    if (!outcome.ok) return [index, undefined, toWireError(outcome.error)]
    const { value } = outcome
    if (value instanceof CellAnswer) {
      const { status, etag, json, stream } = value
      return [index, { status, etag, json: this.#part(json), stream } satisfies PackedAnswer]
    }
    this.#isJson = false
    return value === undefined ? [index] : [index, value]
  }

  #operation(operation: CellOperation): PackedOperation {
    if (operation.op !== 'request' || operation.parsed !== undefined) this.#isJson = false
    if (operation.op !== 'request' || operation.body === undefined) return operation as PackedOperation
    return { ...operation, body: this.#part(operation.body) }
  }

  #part(bytes: Uint8Array | string): number {
    return this.#parts.push(bytes) - 1
  }
}

export function unpackCells(cells: readonly PackedCell[], parts: readonly Buffer[]): BatchCell[] {
  const unpack = (operation: PackedOperation): CellOperation => {
    if (operation.op !== 'request' || operation.body === undefined) return operation as CellOperation
    return { ...operation, body: parts[operation.body] }
  }
  return cells.map((cell) => ({ ...cell, operations: cell.operations.map(unpack) }))
}

/** A short answer goes on as text, which leaves with its head in one piece. */
const TEXT_BYTES_MAX = 16_384

/** @param isAnswer the operation was a request */
export function unpackOutcome(
  [, value, error]: WireOutcome,
  isAnswer: boolean,
  parts: readonly Buffer[],
): Outcome {
  if (error !== undefined) return { ok: false, error: fromWireError(error) }
  if (!isAnswer) return { ok: true, value }
  const { status, etag, json, stream } = value as PackedAnswer
  const bytes = parts[json] as Buffer
  const text = bytes.length > TEXT_BYTES_MAX ? bytes : bytes.toString()
  return { ok: true, value: new CellAnswer(status, text, etag, stream) }
}
