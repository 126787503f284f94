import type { z } from 'zod'
import { CellError } from '../errors.ts'
import type { ExecuteOptions } from '../service/cell-service.ts'
import type { BatchableOperation, OperationResults } from '../service/operations.ts'
import { type CellCall, cellActionWith, ok } from './action.ts'
import { decodeOperation, encodeResult, withBatchField } from './batch-codec.ts'
import { list } from './fields.ts'
import { decodeStatement, encodeSqlResult, sqlSchema, timeoutSchema } from './sql-codec.ts'

const requestSchema = sqlSchema.extend(timeoutSchema.shape)

export const runSql = cellActionWith(requestSchema, async (call, body, exact) => {
  const { limits, service } = call.context
  const statement = decodeStatement(body, { exact, limits: call.context.store.settings.limits })
  const operation = { op: 'sql', ...statement, limits: limits.result } as const
  return ok(encodeSqlResult(await service.execute(call.cellId, operation, boundsOf(call, body))))
})

const batchSchema = timeoutSchema.extend({ operations: list('operations') })

export const runBatch = cellActionWith(batchSchema, async (call, body, exact) => {
  const { operations } = body
  const bounds = boundsOf(call, body)
  const { limits } = call.context.store.settings
  checkCount(operations.length, limits.batchOperationsMax)
  const result = call.context.limits.result
  const decoded = operations.map((value, index) => decodeOperation(value, { index, exact, limits, result }))
  const results = await execute(call, decoded, bounds)
  return ok({ results: results.map((result, i) => encodeResult(decoded[i] as BatchableOperation, result)) })
})

function checkCount(count: number, max: number): void {
  if (count <= max) return
  throw new CellError(
    'invalid_request',
    `A batch takes at most ${max} operations (limits.batchOperationsMax).`,
    {
      field: 'operations',
      limit: max,
    },
  )
}

/**
 * How long the statements may run, and whether the client still waits for them. Only SQL can run long enough to be worth
 * the cost.
 *
 * @throws `invalid_request`
 */
function boundsOf(
  { context, request, permit }: CellCall,
  { timeout_ms }: z.infer<typeof timeoutSchema>,
): ExecuteOptions {
  const { statementMsMax } = context.limits
  if (timeout_ms !== undefined && (timeout_ms < 1 || timeout_ms > statementMsMax)) {
    throw new CellError(
      'invalid_request',
      `timeout_ms is a whole number from 1 to ${statementMsMax} (http.statementMsMax).`,
      {
        field: 'timeout_ms',
        limit: statementMsMax,
      },
    )
  }
  return { signal: request.signal, deadlineMs: timeout_ms, permit }
}

async function execute(
  { context, cellId }: CellCall,
  operations: BatchableOperation[],
  bounds: ExecuteOptions,
): Promise<OperationResults['batch']> {
  try {
    return await context.service.execute(cellId, { op: 'batch', operations }, bounds)
  } catch (error) {
    throw withBatchField(error)
  }
}
