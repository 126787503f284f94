import { integer, type SqlParam } from '../../../client/index.ts'

type Params = SqlParam[] | Record<string, SqlParam>

/** A text of JSON, or one of its numbers. */
const STRING_OR_NUMBER = /"(?:[^"\\]|\\.)*"|-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?/g

/**
 * Reads parameters as JSON, with all digits of integers beyond ±(2^53−1).
 *
 * @returns undefined for an empty text
 * @throws `SyntaxError` for what is no JSON, and for JSON that is neither an array nor an object
 */
export function paramsOf(text: string): Params | undefined {
  if (text.trim() === '') return undefined
  const exact = text.replaceAll(STRING_OR_NUMBER, (each) =>
    /^-?\d+$/.test(each) && !Number.isSafeInteger(Number(each))
      ? JSON.stringify(integer(BigInt(each)))
      : each,
  )
  const params = JSON.parse(exact) as Params | string | number | null
  if (typeof params !== 'object' || params === null)
    throw new SyntaxError('Parameters are an array, for ? in order, or an object, for :name.')
  return params
}
