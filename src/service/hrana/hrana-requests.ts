import { pragmaOnlyReads } from '../../engine/sql-policy/sql-pragma.ts'
import { statementsOf } from '../../engine/sql-policy/sql-script.ts'
import { SqlStatement } from '../../engine/sql-policy/sql-statement.ts'
import { type ControlStatement, controlOf } from '../../engine/sql-policy/transaction-control.ts'
import { MixedParams, type SqlParam, type SqlParams } from '../../engine/statements/sql-values.ts'
import { CellError } from '../../errors.ts'
import { HranaRefusal } from './hrana-errors.ts'
import { decodeValue } from './hrana-values.ts'

/** A statement whose words have been read. */
export interface HranaStatement {
  readonly sql: SqlStatement
  /** What the connection carries out itself. */
  readonly control: ControlStatement | undefined
  /** Whether it may change the cell, by its words. */
  readonly changes: boolean
}

/** A statement with its values; or why there is none. */
export interface HranaStep extends HranaStatement {
  readonly params: SqlParams | MixedParams
  readonly wantRows: boolean
}

export type HranaCondition =
  | { type: 'ok' | 'error'; step: number }
  | { type: 'not'; cond: HranaCondition }
  | { type: 'and' | 'or'; conds: HranaCondition[] }
  | { type: 'is_autocommit' }

export interface HranaBatchStep {
  readonly condition: HranaCondition | undefined
  readonly step: HranaStep | HranaRefusal
}

export type HranaRequest =
  | { type: 'execute'; step: HranaStep | HranaRefusal }
  | { type: 'batch'; steps: HranaBatchStep[] }
  | { type: 'sequence'; statements: HranaStatement[] | HranaRefusal }
  | { type: 'describe'; statement: HranaStatement | HranaRefusal }
  | { type: 'store_sql' | 'close_sql'; refusal: HranaRefusal | undefined }
  | { type: 'close' | 'get_autocommit' }

/** Texts that a stream can keep, so that requests name them by a number. */
const TEXTS_MAX = 50
/** Characters of these together. */
const TEXTS_LENGTH_MAX = 524_288
/** Conditions one inside the other. */
const CONDITION_DEPTH_MAX = 50

/** The texts that a stream keeps, by number. */
export type StoredTexts = Map<number, string>

/**
 * Reads the requests of a pipeline, or of a cursor, and the words of their statements. Unknown members are ignored: later versions of
 * the protocol may have them.
 */
export class RequestReader {
  readonly #texts: StoredTexts
  readonly #paramsMax: number

  /** @param texts of the stream; what the requests store and close is changed there */
  constructor(texts: StoredTexts, paramsMax: number) {
    this.#texts = texts
    this.#paramsMax = paramsMax
  }

  /** @throws `invalid_request`, which names what is wrong */
  pipeline(body: unknown): HranaRequest[] {
    return listOf(Object(body), 'requests', '').map((each, i) => this.#request(each, `requests[${i}]`))
  }

  /** The one batch of a cursor. @throws `invalid_request` */
  cursor(body: unknown): HranaRequest[] {
    return [this.#batch(Object(body), '')]
  }

  #request(request: unknown, at: string): HranaRequest {
    const sent = objectOf(request, at)
    switch (sent['type']) {
      case 'execute':
        return { type: 'execute', step: this.#step(sent['stmt'], `${at}.stmt`) }
      case 'batch':
        return this.#batch(sent, `${at}.`)
      case 'sequence': {
        const sql = this.#text(sent, at)
        return { type: 'sequence', statements: typeof sql === 'string' ? scriptOf(sql) : sql }
      }
      case 'describe': {
        const sql = this.#text(sent, at)
        return { type: 'describe', statement: typeof sql === 'string' ? statementOf(sql) : sql }
      }
      case 'store_sql':
        return {
          type: 'store_sql',
          refusal: this.#store(numberOf(sent, 'sql_id', at), textOf(sent, 'sql', at)),
        }
      case 'close_sql':
        this.#texts.delete(numberOf(sent, 'sql_id', at))
        return { type: 'close_sql', refusal: undefined }
      case 'close':
      case 'get_autocommit':
        return { type: sent['type'] }
      default:
        throw wrong(
          `${at}.type`,
          'must be execute, batch, sequence, describe, store_sql, close_sql, get_autocommit or close',
        )
    }
  }

  #batch(sent: Sent, at: string): HranaRequest {
    const batch = objectOf(sent['batch'], `${at}batch`)
    const steps = listOf(batch, 'steps', `${at}batch.`).map((each, i): HranaBatchStep => {
      const where = `${at}batch.steps[${i}]`
      const { condition, stmt } = objectOf(each, where)
      return {
        condition: condition == null ? undefined : conditionOf(condition, i, `${where}.condition`),
        step: this.#step(stmt, `${where}.stmt`),
      }
    })
    return { type: 'batch', steps }
  }

  #step(value: unknown, at: string): HranaStep | HranaRefusal {
    const sent = objectOf(value, at)
    const sql = this.#text(sent, at)
    if (typeof sql !== 'string') return sql
    const { args, named_args: named, want_rows: wantRows } = sent
    const isPlain = (named == null || isEmpty(named)) && !HAS_NAMES.test(sql)
    const list = args == null ? [] : this.#args(args, `${at}.args`)
    const params = isPlain ? list : new MixedParams(list, this.#named(named, `${at}.named_args`))
    return { ...statementOf(sql), params, wantRows: wantRows !== false }
  }

  #args(args: unknown, at: string): SqlParam[] {
    const list = asList(args, at)
    if (list.length > this.#paramsMax) throw tooMany(at, this.#paramsMax)
    return list.map((each, i) => argOf(each, at, i))
  }

  #named(named: unknown, at: string): Map<string, SqlParam> {
    const list = named == null ? [] : asList(named, at)
    if (list.length > this.#paramsMax) throw tooMany(at, this.#paramsMax)
    return new Map(
      list.map((each, i) => {
        const { name, value } = objectOf(each, `${at}[${i}]`)
        if (typeof name !== 'string') throw wrong(`${at}[${i}].name`, 'must be a string')
        return [name, argOf(value, at, i)]
      }),
    )
  }

  /** The text of a statement, or the one that the stream keeps under a number. */
  #text(sent: Sent, at: string): string | HranaRefusal {
    const { sql, sql_id: id } = sent
    if (typeof sql === 'string' && id == null) return sql
    if (sql != null || id == null) throw wrong(at, 'must have either sql, a string, or sql_id')
    const text = this.#texts.get(numberOf(sent, 'sql_id', at))
    return text ?? new HranaRefusal('SQL_NOT_FOUND', `The stream keeps no SQL text ${String(id)}.`)
  }

  #store(id: number, sql: string): HranaRefusal | undefined {
    if (this.#texts.size >= TEXTS_MAX && !this.#texts.has(id))
      return new HranaRefusal('SQL_STORE_FULL', `A stream keeps at most ${TEXTS_MAX} SQL texts. Close some.`)
    const others = [...this.#texts].filter(([other]) => other !== id)
    if (others.reduce((sum, [, text]) => sum + text.length, sql.length) > TEXTS_LENGTH_MAX)
      return new HranaRefusal(
        'SQL_STORE_FULL',
        `A stream keeps SQL texts of at most ${TEXTS_LENGTH_MAX} characters together. Close some.`,
      )
    this.#texts.set(id, sql)
    return undefined
  }
}

/** A sign of a name or a number of a placeholder. It may also stand in a literal. */
const HAS_NAMES = /[:@$#]|\?\d/

const READS: ReadonlySet<string> = new Set(['SELECT', 'VALUES', 'BLANK'])

function statementOf(text: string): HranaStatement {
  const sql = new SqlStatement(text)
  const control = controlOf(sql)
  const { explain, verb, verbIndex } = sql.head
  const reads =
    control !== undefined ||
    explain ||
    READS.has(verb) ||
    (verb === 'PRAGMA' && pragmaOnlyReads(sql.takeTokens(), verbIndex))
  return { sql, control, changes: !reads }
}

/** The statements of a request, whether they will run or not. */
export function statementsIn(request: HranaRequest): HranaStatement[] {
  switch (request.type) {
    case 'execute':
      return read(request.step)
    case 'batch':
      return request.steps.flatMap(({ step }) => read(step))
    case 'sequence':
      return request.statements instanceof HranaRefusal ? [] : request.statements
    default:
      return []
  }
}

function read<T>(step: T | HranaRefusal): T[] {
  return step instanceof HranaRefusal ? [] : [step]
}

function scriptOf(script: string): HranaStatement[] | HranaRefusal {
  // The lexer stops at a NUL, as SQLite does: half of the script would run.
  if (script.includes('\0')) return new HranaRefusal('SQLITE_ERROR', 'The script contains a NUL character.')
  return [...statementsOf(script)].map(({ sql }) => statementOf(sql))
}

type Sent = Record<string, unknown>

function conditionOf(condition: unknown, before: number, at: string, depth = 0): HranaCondition {
  if (depth > CONDITION_DEPTH_MAX) throw wrong(at, `may be nested ${CONDITION_DEPTH_MAX} deep`)
  const sent = objectOf(condition, at)
  const { type } = sent
  switch (type) {
    case 'ok':
    case 'error': {
      const step = numberOf(sent, 'step', at)
      if (step >= before) throw wrong(`${at}.step`, 'must be the number of an earlier step')
      return { type, step }
    }
    case 'not':
      return { type, cond: conditionOf(sent['cond'], before, `${at}.cond`, depth + 1) }
    case 'and':
    case 'or': {
      const conds = listOf(sent, 'conds', `${at}.`)
      return {
        type,
        conds: conds.map((each, i) => conditionOf(each, before, `${at}.conds[${i}]`, depth + 1)),
      }
    }
    case 'is_autocommit':
      return { type }
    default:
      throw wrong(`${at}.type`, 'must be ok, error, not, and, or or is_autocommit')
  }
}

function argOf(sent: unknown, at: string, index: number): SqlParam {
  const value = decodeValue(sent)
  if (value !== undefined) return value
  throw wrong(
    `${at}[${index}]`,
    'must be {"type":"null"}, or a value of the type integer (its digits as a string, up to 64 bits), float, text or blob (base64)',
  )
}

function isEmpty(value: unknown): boolean {
  return Array.isArray(value) && value.length === 0
}

function objectOf(value: unknown, at: string): Sent {
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    throw wrong(at, 'must be an object')
  return value as Sent
}

function listOf(sent: Sent, name: string, at: string): unknown[] {
  return asList(sent[name], `${at}${name}`)
}

function asList(value: unknown, at: string): unknown[] {
  if (!Array.isArray(value)) throw wrong(at, 'must be a list')
  return value
}

function numberOf(sent: Sent, name: string, at: string): number {
  const value = sent[name]
  if (Number.isInteger(value) && (value as number) >= 0) return value as number
  throw wrong(`${at}.${name}`, 'must be a whole number')
}

function textOf(sent: Sent, name: string, at: string): string {
  const value = sent[name]
  if (typeof value !== 'string') throw wrong(`${at}.${name}`, 'must be a string')
  return value
}

function tooMany(field: string, limit: number): CellError {
  const message = `A statement takes at most ${limit} parameters (limits.paramsMax).`
  return new CellError('invalid_parameter', message, { field, limit })
}

function wrong(field: string, what: string): CellError {
  return new CellError('invalid_request', `${field} ${what}.`, { field })
}
