import { CellError } from '../../src/errors.ts'
import {
  CellAnswer,
  type CellRequest,
  type CellRoute,
  type RequestBounds,
} from '../../src/service/operations.ts'

/** Bounds that no test reaches by chance. */
export const BOUNDS: RequestBounds = {
  statementMsMax: 60_000,
  result: { rowsMax: 10_000, bytesMax: 10_485_760 },
  pageDefault: 100,
}

/** Bounds of a node whose statements may run for so many milliseconds. */
export function statementsOf(statementMsMax: number): RequestBounds {
  return { ...BOUNDS, statementMsMax }
}

/** A request as the node passes it on. @param body JSON, or what is encoded as such */
export function requestOf(route: CellRoute, body?: unknown, rest: Partial<CellRequest> = {}): CellRequest {
  const text = typeof body === 'string' ? body : JSON.stringify(body)
  return { op: 'request', route, body: body === undefined ? undefined : Buffer.from(text), ...rest }
}

/** The document of an answer. */
export function documentIn({ json }: CellAnswer): unknown {
  return JSON.parse(String(json))
}

/** The answer to a GET of an entry with a value of so many bytes. */
export function entryAnswer(valueBytes: number, key = 'k'): CellAnswer {
  const entry = { key, value: 'v'.repeat(valueBytes), version: '1', ttl_seconds: -1, expires_at: null }
  return new CellAnswer(200, JSON.stringify(entry), '"1"')
}

/** The answer of a cell without the entry. */
export function entryMissing(): never {
  throw new CellError('key_not_found', 'No entry has this key, or it has expired.')
}
