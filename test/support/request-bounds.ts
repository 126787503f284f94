import type { CellAnswer, CellRequest, CellRoute, RequestBounds } from '../../src/service/operations.ts'

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
