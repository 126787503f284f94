import { CellError, type CellErrorCode, type CellErrorDetails } from '../../errors.ts'

export interface LimitFacts extends CellErrorDetails {
  /** As docs/limits.md has it: `quotas.cellsMax`. */
  setting: string
  limit: number
}

/**
 * The error of a limit that holds for more than one request: its message says what the account has, names the limit, and
 * says what helps. Never give it another account's usage.
 *
 * @param has the first clause: `The account has 3 cells`
 * @param help the last sentence
 */
export function overLimit(
  code: CellErrorCode,
  has: string,
  { setting, ...details }: LimitFacts,
  help: string,
): CellError {
  return new CellError(code, `${has}; ${setting} is ${details.limit}. ${help}`, details)
}

export const TRY_LATER = 'Try again later.'
