import { CellError } from '../errors.ts'
import { batchSchema, statementSchema } from '../service/json/requests.ts'
import { type Answer, type CellCall, cellActionOfBody } from './action.ts'
import { refuseConditions } from './preconditions.ts'
import type { JsonBody } from './request-body.ts'
import { runBody } from './run-body.ts'

export const runSql = cellActionOfBody(statementSchema, 'any', (call, body) => run('sql', call, body))

export const runBatch = cellActionOfBody(batchSchema, 'any', async (call, body) => {
  try {
    return await run('batch', call, body)
  } catch (error) {
    throw withBatchField(error)
  }
})

/** With whether the client still waits for the answer: only SQL can run long enough to be worth the cost. */
async function run(kind: 'sql' | 'batch', call: CellCall, body: JsonBody): Promise<Answer> {
  const { request, permit, requestId } = call
  refuseConditions(request)
  return { status: 200, json: await runBody(kind, call, body, { signal: request.signal, permit, requestId }) }
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
