import { CellError } from '../errors.ts'

/** @throws `invalid_request` for a value that JSON can't hold */
export function toJson(value: unknown): string {
  let text: string | undefined
  try {
    text = JSON.stringify(value)
  } catch (cause) {
    throw new CellError('invalid_request', 'The value has no JSON form.', { field: 'value', cause })
  }
  if (text !== undefined) return text
  throw new CellError('invalid_request', 'The value has no JSON form.', { field: 'value' })
}
