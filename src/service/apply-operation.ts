import type { Clock } from '../base/clock.ts'
import type { SqlPolicy } from '../engine/cell-settings.ts'
import { type StatementVerb, statementVerb } from '../engine/sql-policy/sql-shape.ts'
import { CellError } from '../errors.ts'
import type { Cell } from '../store/cell.ts'
import { BatchSize, checkNamesFit, listWithin, mgetWithin } from './answer-size.ts'
import type { BatchableOperation, BatchOperation, CellOperation, OperationResults } from './operations.ts'

/** What applying an operation needs beside the cell. */
export interface ApplyContext {
  sqlPolicy: SqlPolicy
  clock: Clock
  /** Bounds what one answer of several entries or results may hold, in bytes of values. */
  answerBytesMax: number
}

/**
 * Carries an operation out on an open cell: the one mapping from operations as plain data to the library's calls,
 * for this process and for workers. Synchronous, so that it can be part of a transaction; what it changes is committed by
 * whoever opened that.
 *
 * @throws what the cell's methods throw; of a batch, with the operation's index in the details
 */
export function applyOperation<O extends CellOperation>(
  cell: Cell,
  operation: O,
  context: ApplyContext,
): OperationResults[O['op']] {
  return apply(cell, operation, context) as OperationResults[O['op']]
}

/**
 * Whether an operation can change the cell, and so belongs into a commit. All others run by themselves: they wait for no
 * group and cost none of its transaction.
 */
export function mayChange(operation: CellOperation): boolean {
  switch (operation.op) {
    case 'kv.get':
    case 'kv.ttl':
    case 'kv.list':
    case 'kv.mget':
      return false
    case 'sql':
      return CHANGING.has(statementVerb(operation.sql).verb)
    case 'batch':
      return !operation.operations.every(isRead)
    default:
      return true
  }
}

/** What a batch can hold and still need no transaction. */
function isRead(operation: BatchableOperation): boolean {
  return operation.op === 'sql' && READING.has(statementVerb(operation.sql).verb)
}

const READING: ReadonlySet<StatementVerb> = new Set(['SELECT', 'VALUES', 'EXPLAIN'])

/**
 * PRAGMAs are in neither set: most only read, and one that sets something commits by itself, unless it is part of a
 * batch. Statements that the policy refuses fail wherever they run.
 */
const CHANGING: ReadonlySet<StatementVerb> = new Set([
  'INSERT',
  'REPLACE',
  'UPDATE',
  'DELETE',
  'CREATE',
  'DROP',
  'ALTER',
  'ANALYZE',
  'REINDEX',
])

type AnyResult = OperationResults[keyof OperationResults]

function apply(cell: Cell, operation: CellOperation, context: ApplyContext): AnyResult {
  const { kv } = cell
  switch (operation.op) {
    case 'sql':
      return runSql(cell, operation, context)
    case 'kv.get':
      return kv.entry(operation.key)
    case 'kv.put':
      return kv.put(operation.key, operation.value, {
        ttlSeconds: operation.ttlSeconds,
        keepTtl: operation.keepTtl,
      })
    case 'kv.incr':
      return kv.incrEntry(operation.key, operation.delta, { ttlSeconds: operation.ttlSeconds })
    case 'kv.ttl':
      return kv.ttl(operation.keys)
    case 'kv.expire':
      return kv.expire(operation.key, operation.ttlSeconds)
    case 'kv.delete':
      return { deleted: kv.delete(operation.key) }
    case 'kv.list':
      return listWithin(kv, operation.options, context.answerBytesMax)
    case 'kv.mget':
      return mgetWithin(kv, operation.keys, context.answerBytesMax)
    case 'kv.mset':
      return { count: kv.mset(operation.entries) }
    case 'kv.deleteMany':
      return { deleted: kv.deleteMany(operation.keys) }
    case 'batch':
      return applyBatch(cell, operation, context)
  }
}

type SqlOperation = Extract<CellOperation, { op: 'sql' }>

function runSql(
  cell: Cell,
  operation: SqlOperation,
  { sqlPolicy, clock }: ApplyContext,
): OperationResults['sql'] {
  const { sql, params, rowMode, limits } = operation
  const started = clock.monotonic()
  const result = cell.sql(sql, params, { policy: sqlPolicy, rowMode, limits })
  if (limits !== undefined) checkNamesFit(result, limits)
  return { ...result, durationMs: clock.monotonic() - started }
}

function applyBatch(
  cell: Cell,
  { operations }: BatchOperation,
  context: ApplyContext,
): OperationResults['batch'] {
  const size = new BatchSize(context.answerBytesMax)
  return operations.map((operation, index) => {
    try {
      const result = applyOperation(cell, operation, context)
      if (operation.op === 'sql') size.add(result as OperationResults['sql'])
      return result
    } catch (error) {
      if (!(error instanceof CellError)) throw error
      throw new CellError(error.code, error.message, { ...error.details, index, cause: error })
    }
  })
}
