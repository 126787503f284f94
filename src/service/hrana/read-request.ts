import type { ResultLimits } from '../../base/options/limits.ts'
import type { ControlStatement } from '../../engine/sql-policy/transaction-control.ts'
import { CellError, isCellError } from '../../errors.ts'
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
  const statements = requests.flatMap(statementsIn)
  const mayChange = statements.some(({ changes }) => changes)
  const mayHold = statements.some(({ control }) => control !== undefined && needsSession(control, isClosed))
  const run = kind === 'pipeline' ? runPipeline : runCursor
  return {
    op: 'work',
    mayChange,
    mayHold,
    mayStay: !isClosed && statements.some(({ control }) => control?.control === 'begin'),
    run: (cell, context) => {
      const { session } = context
      const transactions = session ?? (mayChange ? GroupTransactions.of(cell) : GroupTransactions.none())
      const connection = new HranaConnection(() => session?.cell ?? cell, transactions, {
        ...context,
        result,
      })
      const wasOpen = !connection.isAutocommit
      try {
        const json = run(connection, requests, result.bytesMax)
        connection.end()
        return new CellAnswer(200, json, undefined, {
          isClosed,
          isOpen: !connection.isAutocommit,
          texts: [...stored],
        })
      } catch (error) {
        const runsOnce = wasOpen || connection.hasCommitted
        connection.abandon()
        throw runsOnce ? withoutRoom(error) : error
      }
    },
  }
}

/** What needs more room is run again with more, unless a part of it has been committed, or is lost. */
function withoutRoom(error: unknown): unknown {
  if (!isCellError(error, 'cell_full')) return error
  const { limit: _, ...details } = error.details
  return new CellError('cell_full', 'There was no room for the transaction. It was rolled back.', {
    ...details,
    cause: error,
  })
}

/** Whether it sets what is set outside of a transaction, or begins one that may stay open. */
function needsSession({ control, ...statement }: ControlStatement, isClosed: boolean): boolean {
  if (control === 'foreign keys') return 'isOn' in statement && statement.isOn !== undefined
  return !isClosed && (control === 'begin' || control === 'savepoint')
}
