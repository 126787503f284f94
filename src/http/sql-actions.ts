import { CellError } from '../errors.ts'
import type { ExecuteOptions } from '../service/cell-service.ts'
import { batchSchema, decodeRequest, statementSchema } from '../service/json/requests.ts'
import type { BodyBounds, JsonText } from '../service/operations.ts'
import { type Answer, type CellCall, cellActionOfBody } from './action.ts'
import { refuseConditions } from './preconditions.ts'
import type { JsonBody } from './request-body.ts'

export const runSql = cellActionOfBody(statementSchema, (call, body) => run('sql', call, body))

export const runBatch = cellActionOfBody(batchSchema, async (call, body) => {
  try {
    return await run('batch', call, body)
  } catch (error) {
    throw withBatchField(error)
  }
})

async function run(kind: 'sql' | 'batch', call: CellCall, body: JsonBody): Promise<Answer> {
  refuseConditions(call.request)
  return { status: 200, json: await execute(kind, call, body) }
}

/** Whether the client still waits for the answer: only SQL can run long enough to be worth the cost. */
function execute(kind: 'sql' | 'batch', call: CellCall, body: JsonBody): Promise<JsonText> {
  const { context, cellId, request, scope, permit, requestId } = call
  const options: ExecuteOptions = { signal: request.signal, permit, requestId }
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
  const { sqlBytesMax, paramsMax, batchOperationsMax } = store.settings.limits
  const { statementMsMax, result } = limits
  return { sqlBytesMax, paramsMax, batchOperationsMax, statementMsMax, result }
}

/** The field's place in the body that the caller sent, for an error that names only its operation. */
function withBatchField(error: unknown): unknown {
  if (!(error instanceof CellError)) return error
  const { index, field } = error.details
  if (index === undefined || field === undefined || field.startsWith('operations[')) return error
  return new CellError(error.code, error.message, {
    ...error.details,
    field: `operations[${index}].${field}`,
    cause: error,
  })
}
