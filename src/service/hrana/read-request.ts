import type { ResultLimits } from '../../base/options/limits.ts'
import { CellAnswer, type CellRequest } from '../operations.ts'
import type { WorkOperation } from '../work-operation.ts'
import { GroupTransactions } from './group-transactions.ts'
import { HranaConnection } from './hrana-connection.ts'
import { RequestReader, statementsIn } from './hrana-requests.ts'
import { runCursor, runPipeline } from './run-requests.ts'

interface Bounds {
  paramsMax: number
  /** Of each statement's result; its bytes also of all together. */
  result: ResultLimits
}

/**
 * Reads a request of Hrana, as work on its cell.
 *
 * @throws `invalid_request`, `invalid_parameter`
 */
export function readHrana(
  kind: 'pipeline' | 'cursor',
  { texts = [] }: CellRequest,
  body: unknown,
  { paramsMax, result }: Bounds,
): WorkOperation {
  const stored = new Map(texts)
  const requests = new RequestReader(stored, paramsMax)[kind](body)
  const isClosed = requests.some(({ type }) => type === 'close')
  const mayChange = requests.some((each) => statementsIn(each).some(({ changes }) => changes))
  const run = kind === 'pipeline' ? runPipeline : runCursor
  return {
    op: 'work',
    mayChange,
    run: (cell, context) => {
      const transactions = mayChange ? GroupTransactions.of(cell) : GroupTransactions.none()
      const connection = new HranaConnection(cell, transactions, { ...context, result })
      try {
        const json = run(connection, requests, result.bytesMax)
        return new CellAnswer(200, json, undefined, { isClosed, texts: [...stored] })
      } finally {
        connection.close()
      }
    },
  }
}

