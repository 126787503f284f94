import type { ExecuteOptions } from '../service/cell-service.ts'
import { decodeRequest } from '../service/json/requests.ts'
import type { BodyBounds, JsonText, UnreadKind } from '../service/operations.ts'
import type { CellCall } from './action.ts'
import type { JsonBody } from './request-body.ts'

/** Does what a body asks for, whether it was read here or whoever runs the operation reads it. @returns the answer */
export function runBody(
  kind: UnreadKind,
  call: CellCall,
  body: JsonBody,
  options: ExecuteOptions,
): Promise<JsonText> {
  const { context, cellId, scope } = call
  const bounds = boundsOf(call)
  const readOnly = scope?.access === 'read' ? true : undefined
  if (body.unread !== undefined) {
    const unread = { op: 'unread', kind, body: body.unread, bounds, readOnly } as const
    return context.service.execute(cellId, unread, options)
  }
  const { operation, timeoutMs } = decodeRequest(kind, body.value, body.exact, bounds)
  const bounded = { ...operation, readOnly }
  return context.service.execute(cellId, bounded, { ...options, deadlineMs: timeoutMs })
}

function boundsOf({ context: { limits, store } }: CellCall): BodyBounds {
  const { sqlBytesMax, paramsMax, batchOperationsMax, kvKeysMax } = store.settings.limits
  const { statementMsMax, result } = limits
  return { sqlBytesMax, paramsMax, batchOperationsMax, kvKeysMax, statementMsMax, result }
}
