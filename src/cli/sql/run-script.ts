import fs from 'node:fs'
import { buffer } from 'node:stream/consumers'
import { CellError, isCellError } from '../../errors.ts'
import type { SqlDocument } from '../../service/json/sql-answers.ts'
import type { CallOptions, StoreClient } from '../store-client.ts'
import { IMPORT_INSTEAD, type NumberedStatement, placeOf, type ScriptStep, stepsOf } from './script-steps.ts'

/** Statements from a file or from standard input. */
export interface Script {
  /** Of its file; undefined for standard input. */
  file: string | undefined
  text: string
}

/**
 * Runs a script on a cell, a step at a time, up to the first error. What ran before the error stays.
 *
 * @throws what a statement throws, with its file, number and line in the message
 */
export async function* runScript(
  client: Pick<StoreClient, 'sql' | 'batch'>,
  cell: string,
  { file, text }: Script,
  options: CallOptions = {},
): AsyncGenerator<SqlDocument, void> {
  const where = file === undefined ? '' : `${file}: `
  for (const step of readSteps(text, where)) {
    try {
      if (step.isTransaction) yield* await client.batch({ cell, operations: operationsOf(step) }, options)
      else yield await client.sql({ cell, sql: onlyOf(step).sql }, options)
    } catch (error) {
      throw explained(error, step, where)
    }
  }
}

function readSteps(text: string, where: string): ScriptStep[] {
  try {
    // The lexer stops at a NUL, as SQLite does: half of the script would run without a word.
    if (text.includes('\0'))
      throw new CellError('invalid_request', 'A script has no NUL characters.', { field: 'sql' })
    return stepsOf(text)
  } catch (error) {
    throw isCellError(error) ? new CellError(error.code, where + error.message, error.details) : error
  }
}

function operationsOf({ statements }: ScriptStep): { sql: string }[] {
  return statements.map(({ sql }) => ({ sql }))
}

function onlyOf({ statements }: ScriptStep): NumberedStatement {
  return statements[0] as NumberedStatement
}

function explained(error: unknown, step: ScriptStep, where: string): unknown {
  if (!(error instanceof CellError)) return error
  const { code, message, details } = error
  const { index, ...rest } = details
  const failed = step.statements[index ?? 0] ?? onlyOf(step)
  const kept = step.isTransaction ? ' Nothing of its transaction was kept.' : ''
  const what = step.isDump ? `${kept} ${IMPORT_INSTEAD}` : kept
  return new CellError(code, `${where}${capitalized(placeOf(failed))}: ${mended(message, failed)}${what}`, {
    ...rest,
    cause: error.cause,
  })
}

/** What SQLite says of `.tables` is a riddle. */
function mended(message: string, { sql }: NumberedStatement): string {
  return sql.startsWith('.')
    ? 'Commands that start with a dot work only in the shell, at a terminal.'
    : message
}

function capitalized(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1)
}

/** In place of a file's name. */
export const STANDARD_INPUT = '-'

/** @throws `invalid_request` if there is none, or it is not UTF-8, and what reading it throws */
export async function readScript(file: string): Promise<Script> {
  if (file !== STANDARD_INPUT) {
    if (!fs.existsSync(file)) throw new CellError('invalid_request', `There is no file ${file}.`)
    return { file, text: decode(fs.readFileSync(file), file) }
  }
  return { file: undefined, text: decode(await buffer(process.stdin), 'Standard input') }
}

/** Half of a character must not become another one in the cell. */
function decode(bytes: Uint8Array, name: string): string {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes)
  } catch {
    throw new CellError('invalid_request', `${name} is not UTF-8.`, { field: 'file' })
  }
}
