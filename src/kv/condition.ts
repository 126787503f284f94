import { CellError } from '../errors.ts'
import type { KvConditionOptions } from './entry.ts'

/** What has to be there for a change to happen: any live entry or none, or the one of a version. Undefined: whatever. */
export type Condition = 'present' | 'absent' | bigint | undefined

const ANY = '*'
/** As {@link Versions} makes them; others match nothing. */
const VERSION = /^[1-9]\d{0,18}$/
const VERSION_MAX = 2n ** 63n - 1n
/** No entry has it. */
const NONE = -1n

/**
 * @param at where in the input the condition stands: `entries[2].`
 * @throws `invalid_request`
 */
export function conditionOf(options: KvConditionOptions, at = ''): Condition {
  const { ifVersion } = options
  if (ifVersion === undefined) return undefined
  if (ifVersion === null) return 'absent'
  if (ifVersion === ANY) return 'present'
  if (typeof ifVersion !== 'string') throw badCondition("is a version, '*' or null", at)
  const version = VERSION.test(ifVersion) ? BigInt(ifVersion) : NONE
  return version <= VERSION_MAX ? version : NONE
}

/** As {@link conditionOf}, for a deletion. */
export function deleteConditionOf(options: KvConditionOptions): Exclude<Condition, 'absent'> {
  const condition = conditionOf(options)
  if (condition !== 'absent') return condition
  throw badCondition("is a version or '*': where there is no entry, there is nothing to delete", '')
}

/** @param at where in the input the condition stands; then the error names it */
export function preconditionFailed(condition: Condition, at = ''): CellError {
  const message =
    condition === 'absent'
      ? 'There is an entry with this key already.'
      : condition === 'present'
        ? 'There is no entry with this key.'
        : 'The entry has another version by now, or is gone. Read it again, and decide again.'
  return new CellError('precondition_failed', message, at === '' ? {} : { field: `${at}ifVersion` })
}

function badCondition(what: string, at: string): CellError {
  const field = `${at}ifVersion`
  return new CellError('invalid_request', `${field} ${what}.`, { field })
}
