import type { ProblemDocument } from '../answers/problem-document.ts'
import { type HttpResponse, withCommonHeaders } from '../core/http-message.ts'
import type { Target } from './elsewhere.ts'
import { ASSIGNMENT_HEADER, CELL_HEADER } from './mark.ts'

/**
 * The answer to another node that took this one for the owner. No client sees it.
 *
 * @param assignment the number of the newest one that this node knows
 */
export function misdirected(assignment: number, target: Target | undefined, requestId: string): HttpResponse {
  const document: ProblemDocument = {
    type: 'about:blank',
    title: 'Misdirected Request',
    status: 421,
    detail: 'This node does not have the cell. Nothing was done.',
    code: 'cell_moving',
    request_id: requestId,
  }
  const headers: Record<string, string> = {
    'Content-Type': 'application/problem+json',
    [ASSIGNMENT_HEADER]: String(assignment),
  }
  if (typeof target === 'object') headers[CELL_HEADER] = target.cellId
  return withCommonHeaders({ status: 421, headers, body: JSON.stringify(document) }, requestId)
}
