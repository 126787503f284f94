import type { ResultLimits } from '../../base/options/limits.ts'
import {
  BOUND,
  FLAG,
  group,
  maybe,
  type OptionContext,
  oneOf,
  type Shape,
} from '../../base/options/option-shapes.ts'
import { SQL_POLICY } from '../cell-settings.ts'
import type { SqlOptions } from './statement-runner.ts'

export const RESULT_LIMITS: Shape<ResultLimits> = { rowsMax: BOUND, bytesMax: BOUND }
/** A misspelt policy must not count as `trusted`. */
export const SQL_OPTIONS: Shape<SqlOptions> = {
  policy: maybe(SQL_POLICY),
  readOnly: FLAG,
  rowMode: maybe(oneOf('object', 'array')),
  limits: maybe(group(RESULT_LIMITS)),
}

/** A second parameter stands where the options of a call do. */
export const BEHIND_PARAMS: OptionContext = { hint: ' Several parameters are one list: sql(text, [1, 2]).' }
