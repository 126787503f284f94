import { isError } from '../base/any-realm.ts'
import { shownValue } from '../base/options/shown-value.ts'
import { CellError } from '../errors.ts'

/** @throws `invalid_request` for a value that JSON can't hold */
export function toJson(value: unknown): string {
  let text: string | undefined
  try {
    text = JSON.stringify(value)
  } catch (cause) {
    throw noForm(reasonOf(cause), cause)
  }
  if (text !== undefined) return text
  throw noForm(`it is ${shownValue(value)}`)
}

function noForm(why: string, cause?: unknown): CellError {
  const details = { field: 'value', ...(cause === undefined ? {} : { cause }) }
  return new CellError('invalid_request', `The value has no JSON form: ${why}.`, details)
}

/** JSON.stringify says it in the first line, and draws a circle below. */
function reasonOf(cause: unknown): string {
  return isError(cause) ? (cause.message.split('\n', 1)[0] as string) : 'its toJSON() fails'
}
