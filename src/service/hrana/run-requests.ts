import type { ColumnDescription } from '../../engine/statements/prepared-statements.ts'
import type { RawResult, StatementDescription } from '../../engine/statements/statement-runner.ts'
import { CellError } from '../../errors.ts'
import type { HranaConnection } from './hrana-connection.ts'
import { type HranaError, HranaRefusal, stepErrorOf } from './hrana-errors.ts'
import type {
  HranaBatchStep,
  HranaCondition,
  HranaRequest,
  HranaStatement,
  HranaStep,
} from './hrana-requests.ts'
import { writeValue } from './hrana-values.ts'

/** Of JSON, for each byte that values may count in an answer: a small value has an object of its own. */
const JSON_PER_BYTE = 2

/**
 * Runs the requests of a pipeline one after the other and writes their answers. One that fails does not keep the next ones from running.
 *
 * @param bytesMax what the values of the answers may count together, in bytes
 * @returns the list of results, as JSON
 * @throws errors that the whole pipeline has
 */
export function runPipeline(
  connection: HranaConnection,
  requests: readonly HranaRequest[],
  bytesMax: number,
): string {
  const size = new WrittenSize(bytesMax)
  let isClosed = false
  const results = requests.map((request) => {
    try {
      if (isClosed) throw new HranaRefusal('STREAM_CLOSED', 'The stream was closed by an earlier request.')
      isClosed = request.type === 'close'
      return `{"type":"ok","response":${answer(connection, request, size)}}`
    } catch (error) {
      return `{"type":"error","error":${written(error, connection)}}`
    }
  })
  return `[${results.join(',')}]`
}

/**
 * Runs the one batch of a cursor.
 *
 * @returns its entries, a line each, as JSON
 * @throws errors that the whole batch has
 */
export function runCursor(
  connection: HranaConnection,
  [batch]: readonly HranaRequest[],
  bytesMax: number,
): string {
  if (batch?.type !== 'batch') throw new TypeError('A cursor has one batch.')
  const size = new WrittenSize(bytesMax)
  const lines: string[] = []
  runSteps(connection, batch.steps, {
    write: (result, { wantRows }, step) => {
      const { columns, rows } = result
      const entries = [`{"type":"step_begin","step":${step},"cols":${writeColumns(columns)}}`]
      if (wantRows) for (const row of rows) entries.push(`{"type":"row","row":${writeRow(row)}}`)
      entries.push(`{"type":"step_end",${writeCounts(result)}}`)
      return size.checked(entries.join('\n'))
    },
    ran: (entries) => lines.push(entries),
    failed: (error, step) => lines.push(`{"type":"step_error","step":${step},"error":${error}}`),
    skipped: () => {},
  })
  return lines.map((line) => `${line}\n`).join('')
}

function answer(connection: HranaConnection, request: HranaRequest, size: WrittenSize): string {
  const { type } = request
  switch (type) {
    case 'execute': {
      const step = accepted(request.step)
      const result = connection.execute(step, (result) => size.checked(writeResult(result, step.wantRows)))
      return `{"type":"execute","result":${result}}`
    }
    case 'batch':
      return `{"type":"batch","result":${runBatch(connection, request.steps, size)}}`
    case 'sequence':
      for (const statement of accepted(request.statements))
        connection.execute(withoutParams(statement), () => {})
      return '{"type":"sequence"}'
    case 'describe':
      return `{"type":"describe","result":${writeDescription(connection.describe(accepted(request.statement)))}}`
    case 'get_autocommit':
      return `{"type":"get_autocommit","is_autocommit":${connection.isAutocommit}}`
    case 'close':
      connection.close()
      return '{"type":"close"}'
    default:
      if (request.refusal !== undefined) throw request.refusal
      return `{"type":"${type}"}`
  }
}

function runBatch(connection: HranaConnection, steps: readonly HranaBatchStep[], size: WrittenSize): string {
  const results: string[] = []
  const errors: string[] = []
  const add = (result: string, error: string) => {
    results.push(result)
    errors.push(error)
  }
  runSteps(connection, steps, {
    write: (result, { wantRows }) => size.checked(writeResult(result, wantRows)),
    ran: (result) => add(result, 'null'),
    failed: (error) => add('null', error),
    skipped: () => add('null', 'null'),
  })
  return `{"step_results":[${results.join(',')}],"step_errors":[${errors.join(',')}]}`
}

interface StepEvents {
  write(result: RawResult, step: HranaStep, index: number): string
  ran(written: string): void
  failed(error: string, index: number): void
  skipped(): void
}

function runSteps(connection: HranaConnection, steps: readonly HranaBatchStep[], events: StepEvents): void {
  /** Undefined: it was skipped. */
  const outcomes: (boolean | undefined)[] = []
  for (const [index, { condition, step }] of steps.entries()) {
    if (condition !== undefined && !holds(condition, outcomes, connection)) {
      outcomes.push(undefined)
      events.skipped()
      continue
    }
    try {
      const run = accepted(step)
      const result = connection.execute(run, (result) => events.write(result, run, index))
      outcomes.push(true)
      events.ran(result)
    } catch (error) {
      events.failed(written(error, connection), index)
      outcomes.push(false)
    }
  }
}

function holds(
  condition: HranaCondition,
  outcomes: readonly (boolean | undefined)[],
  connection: HranaConnection,
): boolean {
  switch (condition.type) {
    case 'ok':
      return outcomes[condition.step] === true
    case 'error':
      return outcomes[condition.step] === false
    case 'not':
      return !holds(condition.cond, outcomes, connection)
    case 'and':
      return condition.conds.every((each) => holds(each, outcomes, connection))
    case 'or':
      return condition.conds.some((each) => holds(each, outcomes, connection))
    case 'is_autocommit':
      return connection.isAutocommit
  }
}

/** @throws why there is nothing to run */
function accepted<T>(read: T | HranaRefusal): T {
  if (read instanceof HranaRefusal) throw read
  return read
}

function withoutParams(statement: HranaStatement): HranaStep {
  return { ...statement, params: [], wantRows: false }
}

/** @throws the error, if it is not of one step alone */
function written(error: unknown, { hasCommitted }: HranaConnection): string {
  const shown: HranaError | undefined = stepErrorOf(error, hasCommitted)
  if (shown === undefined) throw error
  return JSON.stringify(shown)
}

function writeResult(result: RawResult, wantRows: boolean): string {
  const rows = wantRows ? result.rows.map(writeRow).join(',') : ''
  return `{"cols":${writeColumns(result.columns)},"rows":[${rows}],${writeCounts(result)}}`
}

function writeCounts({ changes, lastInsertRowid }: RawResult): string {
  const rowid = lastInsertRowid === null ? 'null' : `"${lastInsertRowid}"`
  return `"affected_row_count":${changes},"last_insert_rowid":${rowid}`
}

function writeRow(row: RawResult['rows'][number]): string {
  return `[${row.map(writeValue).join(',')}]`
}

function writeColumns(columns: readonly ColumnDescription[]): string {
  return JSON.stringify(columns.map(({ name, type }) => ({ name, decltype: type })))
}

function writeDescription({ params, columns, isExplain, isReadOnly }: StatementDescription): string {
  return JSON.stringify({
    params: params.map((name) => ({ name })),
    cols: columns.map(({ name, type }) => ({ name, decltype: type })),
    is_explain: isExplain,
    is_readonly: isReadOnly,
  })
}

/** Adds up what an answer has so far. */
class WrittenSize {
  readonly #bytesMax: number
  #length = 0

  constructor(bytesMax: number) {
    this.#bytesMax = bytesMax
  }

  /** @throws `result_too_large` */
  checked(json: string): string {
    if (this.#length + json.length <= JSON_PER_BYTE * this.#bytesMax) {
      this.#length += json.length
      return json
    }
    const message = `The results of the pipeline together are larger than ${this.#bytesMax} bytes (result.bytesMax). Ask for less.`
    throw new CellError('result_too_large', message, { limit: this.#bytesMax })
  }
}
