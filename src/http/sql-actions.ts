import { z } from 'zod'
import { CellError } from '../errors.ts'
import type { BatchableOperation, OperationResults } from '../host/operations.ts'
import { type CellCall, cellActionWith, ok } from './action.ts'
import { decodeOperation, encodeResult, withBatchField } from './batch-codec.ts'
import { listOf } from './fields.ts'
import { decodeParams, encodeSqlResult, sqlSchema } from './sql-codec.ts'

export const runSql = cellActionWith(sqlSchema, async ({ context, cellId }, body, exact) => {
  const { limits, service } = context
  const result = await service.execute(cellId, {
    op: 'sql',
    sql: body.sql,
    params: decodeParams(body.params, exact),
    rowMode: body.row_mode,
    limits: limits.result,
  })
  return ok(encodeSqlResult(result))
})

const batchSchema = z.object({ operations: listOf(z.unknown(), 'operations') })

export const runBatch = cellActionWith(batchSchema, async (call, { operations }, exact) => {
  checkCount(operations.length, call.context.store.settings.limits.batchOperationsMax)
  const limits = call.context.limits.result
  const decoded = operations.map((value, index) => decodeOperation(value, { index, exact, limits }))
  const results = await execute(call, decoded)
  return ok({ results: results.map((result, i) => encodeResult(decoded[i] as BatchableOperation, result)) })
})

function checkCount(count: number, max: number): void {
  if (count <= max) return
  throw new CellError('invalid_request', `At most ${max} operations a batch.`, {
    field: 'operations',
    limit: max,
  })
}

async function execute(
  { context, cellId }: CellCall,
  operations: BatchableOperation[],
): Promise<OperationResults['batch']> {
  try {
    return await context.service.execute(cellId, { op: 'batch', operations })
  } catch (error) {
    throw withBatchField(error)
  }
}
