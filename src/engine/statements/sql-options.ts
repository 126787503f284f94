import { checkNames, type Known, type NameContext } from '../../base/known-names.ts'
import type { ResultLimits } from '../../base/limits.ts'
import { notOneOf } from '../../base/shown-value.ts'
import { CellError } from '../../errors.ts'
import type { SqlOptions } from './statement-runner.ts'

const SQL_NAMES: Known<SqlOptions> = { policy: true, readOnly: true, rowMode: true, limits: true }
const RESULT_NAMES: Known<ResultLimits> = { rowsMax: true, bytesMax: true }

/** A second parameter stands where the options of a call do. */
export const BEHIND_PARAMS: NameContext = { hint: ' Several parameters are one list: sql(text, [1, 2]).' }

/**
 * A misspelt policy must not count as `trusted`.
 *
 * @throws `invalid_request`
 */
export function checkSqlOptions(options: SqlOptions): void {
  checkNames(options, SQL_NAMES, BEHIND_PARAMS)
  const { policy, rowMode, limits } = options
  checkChoice('policy', policy, ['tenant', 'trusted'])
  checkChoice('rowMode', rowMode, ['object', 'array'])
  if (limits !== undefined) checkNames(limits, RESULT_NAMES, { at: 'limits.' })
}

function checkChoice(field: string, value: string | undefined, choices: readonly string[]): void {
  if (value === undefined || choices.includes(value)) return
  throw new CellError('invalid_request', notOneOf(field, value, choices), { field })
}
