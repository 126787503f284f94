import type { Clock } from '../base/clock.ts'
import { definedOnly } from '../base/options/option-shapes.ts'
import type { SqlPolicy } from '../engine/cell-settings.ts'
import { SqlStatement, type StatementVerb } from '../engine/sql-policy/sql-statement.ts'
import { mayOnlyRead } from '../engine/statements/statement-runner.ts'
import { CellError } from '../errors.ts'
import type { KvPutOptions } from '../kv/entry.ts'
import type { Cell } from '../store/open/cell.ts'
import { BatchSize, checkNamesFit, listWithin, mgetWithin } from './answer-size.ts'
import type { CellSession } from './holds/cell-session.ts'
import {
  type BatchableOperation,
  type CellAnswer,
  type CellOperation,
  type HoldOperation,
  type OperationResults,
  type PlainOperation,
  READ_OPERATIONS,
  type ReadOperation,
} from './operations.ts'
import type { ReadRequest } from './requests/cell-routes.ts'
import type { SlowStatements, WorkOperation } from './work-operation.ts'

/** What applying an operation needs beside the cell. */
export interface ApplyContext {
  sqlPolicy: SqlPolicy
  clock: Clock
  /** Bounds what one answer of several entries or results may hold, in bytes of values. */
  answerBytesMax: number
  slow?: SlowStatements | undefined
  /** Of an operation that {@link needsSession}. */
  session?: CellSession | undefined
}

type SqlOperation = Extract<BatchableOperation, { op: 'sql' }>
type ParsedSql = Omit<SqlOperation, 'sql'> & { sql: SqlStatement }

type ParsedBatchable = Exclude<BatchableOperation, SqlOperation> | ParsedSql

/** An operation whose statements are parsed once: for {@link mayChange}, and then for {@link applyOperation}. */
export type ParsedOperation = (
  | ReadOperation
  | ParsedBatchable
  | { op: 'batch'; operations: ParsedBatchable[] }
  | WorkOperation
  | HoldOperation
) &
  OfOperation & {
    /** Whether it may begin transactions. Undefined for one that neither begins nor ends any. */
    mayHold?: boolean | undefined
    /** Whether one may be open behind it that it has begun. */
    mayStay?: boolean | undefined
    /** Makes the answer of a request from the result. */
    answer?: ((result: unknown) => CellAnswer) | undefined
    /** Milliseconds that its statements may run, if its request says so. */
    statementMs?: number | undefined
  }

/** What holds for a whole operation. */
type OfOperation = Pick<CellOperation, 'growth' | 'readOnly' | 'hold'>

export function parseOperation(operation: (PlainOperation | WorkOperation) & OfOperation): ParsedOperation {
  if (operation.op === 'hold') {
    const begins = operation.step === 'begin'
    return { ...operation, mayHold: begins, mayStay: begins }
  }
  if (operation.op === 'batch') return { ...operation, operations: operation.operations.map(parseBatchable) }
  return operation.op === 'sql' ? parseBatchable(operation) : operation
}

function parseBatchable(operation: BatchableOperation): ParsedBatchable {
  return operation.op === 'sql' ? { ...operation, sql: new SqlStatement(operation.sql) } : operation
}

/** @param read what its request asks for */
export function parseRequest(
  { growth, readOnly, hold }: OfOperation,
  { operation, answer, statementMs }: ReadRequest,
): ParsedOperation {
  return { ...parseOperation(operation), growth, readOnly, hold, answer, statementMs }
}

/** Whether it runs in a session, with transactions of its own: alone, and outside of every group commit. */
export function needsSession({ hold, mayHold }: ParsedOperation): boolean {
  return hold !== undefined && (hold.isOpen || mayHold === true)
}

/**
 * Carries an operation out on an open cell: the one mapping from operations as plain data to the library's calls,
 * for this process and for workers. Synchronous, so that it can be part of a transaction; what it changes is committed by
 * whoever opened that.
 *
 * @throws what the cell's methods throw; of a batch, with the operation's index in the details
 */
export function applyOperation(cell: Cell, operation: ParsedOperation, context: ApplyContext): unknown {
  const isPart = context.session?.inTransaction === true && operation.mayHold === undefined
  // It leaves nothing behind when it fails, as in a group commit.
  if (isPart && mayChange(operation)) return cell.transaction(() => carryOut(cell, operation, context))
  return carryOut(cell, operation, context)
}

function carryOut(cell: Cell, operation: ParsedOperation, context: ApplyContext): unknown {
  if (mayChange(operation)) cell.limitGrowth(operation.growth ?? 'any')
  // Most operations may write: none of those pays for a context of its own.
  const bound: BoundContext = operation.readOnly === true ? { ...context, readOnly: true } : context
  const result = apply(cell, operation, bound)
  return operation.answer === undefined ? result : operation.answer(result)
}

/**
 * Whether an operation can change the cell, and so belongs into a commit. All others run by themselves: they wait for no
 * group and cost none of its transaction.
 */
export function mayChange(operation: ParsedOperation): boolean {
  switch (operation.op) {
    case 'sql':
      return !operation.sql.head.explain && CHANGING.has(operation.sql.head.verb)
    case 'batch':
      return !operation.operations.every(isRead)
    case 'work':
      return operation.mayChange
    case 'hold':
      return false
    default:
      return !READ_OPERATIONS.has(operation.op)
  }
}

/** Whether an operation that belongs into no commit may commit by itself: `PRAGMA user_version = 2` does. */
export function mayCommitAlone(operation: ParsedOperation): boolean {
  return operation.op === 'sql' && !isRead(operation) && !mayChange(operation)
}

/** What a batch can hold and still need no transaction. */
function isRead(operation: ParsedBatchable): boolean {
  if (operation.op !== 'sql') return false
  const { explain, verb } = operation.sql.head
  return explain || READING.has(verb)
}

const READING: ReadonlySet<StatementVerb> = new Set(['SELECT', 'VALUES'])

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

/** With whether the operation may only read: SQL is told, since only SQLite knows which statements do. */
type BoundContext = ApplyContext & { readonly readOnly?: true }

function apply(cell: Cell, operation: ParsedOperation, context: BoundContext): unknown {
  const { kv } = cell
  const { op } = operation
  if (context.readOnly && !RUNS_SQL.has(op) && op !== 'hold' && !READ_OPERATIONS.has(op)) throw mayOnlyRead()
  switch (operation.op) {
    case 'sql':
      return runSql(cell, operation, context)
    case 'kv.get':
      return kv.entry(operation.key)
    case 'kv.put':
      return kv.put(operation.key, operation.value, putOptions(operation))
    case 'kv.incr':
      return kv.incrEntry(operation.key, operation.delta, definedOnly({ ttlSeconds: operation.ttlSeconds }))
    case 'kv.ttl':
      return kv.ttl(operation.keys)
    case 'kv.expire':
      return kv.expire(operation.key, operation.ttlSeconds)
    case 'kv.delete':
      return { deleted: kv.delete(operation.key, definedOnly({ ifVersion: operation.ifVersion })) }
    case 'kv.getdel':
      return kv.getdel(operation.key)
    case 'kv.list':
      return listWithin(kv, operation.options, context.answerBytesMax)
    case 'kv.mget':
      return mgetWithin(kv, operation.keys, context.answerBytesMax)
    case 'kv.mset':
      return kv.put(operation.entries)
    case 'kv.deleteMany':
      return { deleted: kv.delete(operation.keys).filter(Boolean).length }
    case 'batch':
      return applyBatch(cell, operation.operations, context)
    case 'work':
      return operation.run(cell, context)
    case 'hold':
      return applyHold(operation, context)
  }
}

/** They run statements: these can take long, and are refused one by one where nothing may be changed. */
export const RUNS_SQL: ReadonlySet<string> = new Set<ParsedOperation['op']>(['sql', 'batch', 'work'])

function applyHold({ step }: HoldOperation, { session, readOnly }: BoundContext): undefined {
  if (session === undefined)
    throw new CellError('invalid_request', 'No transaction is open.', { field: 'hold' })
  if (step === 'begin') session.begin({ readOnly: readOnly === true })
  else session[step]()
}

type OperationPut = Pick<
  Extract<BatchableOperation, { op: 'kv.put' }>,
  'ttlSeconds' | 'keepTtl' | 'ifVersion'
>

/** As options: there, what is undefined is refused. */
function putOptions({ ttlSeconds, keepTtl, ifVersion }: OperationPut): KvPutOptions {
  return definedOnly({ ttlSeconds, keepTtl, ifVersion })
}

function runSql(
  cell: Cell,
  operation: ParsedSql,
  { sqlPolicy, clock, slow, readOnly }: BoundContext,
): OperationResults['sql'] {
  const { sql, params, rowMode, limits } = operation
  const started = clock.monotonic()
  let durationMs = 0
  try {
    const result = cell.run<OperationResults['sql']['rows'][number]>(sql, params, {
      policy: sqlPolicy,
      readOnly: readOnly === true,
      rowMode,
      limits,
    })
    durationMs = clock.monotonic() - started
    if (limits !== undefined) checkNamesFit(result, limits)
    return { ...result, durationMs }
  } catch (error) {
    durationMs = clock.monotonic() - started
    throw error
  } finally {
    if (slow !== undefined && durationMs >= slow.fromMs) slow.tell(sql.sql, durationMs)
  }
}

function applyBatch(
  cell: Cell,
  operations: ParsedBatchable[],
  context: BoundContext,
): OperationResults['batch'] {
  const size = new BatchSize(context.answerBytesMax)
  return operations.map((operation, index) => {
    try {
      const result = apply(cell, operation, context)
      size.add(result)
      return result as OperationResults['batch'][number]
    } catch (error) {
      if (!(error instanceof CellError)) throw error
      throw new CellError(error.code, error.message, { ...error.details, index, cause: error })
    }
  })
}
