import { CellError, type CellErrorCode } from '../../errors.ts'

export interface NameContext {
  /** Default `invalid_request`. */
  code?: Extract<CellErrorCode, 'invalid_request' | 'invalid_setting'> | undefined
  /** What precedes the name in messages: `backups.`, `entries[2].`. */
  at?: string | undefined
  /** Names of other places, with those places: `backups.keep`. */
  elsewhere?: readonly string[] | undefined
}

/** Longer names are cut: they are the caller's, and messages go to logs. */
const SHOWN_MAX = 64
/** Of names, in a message. */
const LISTED_MAX = 12

/** A name that would be ignored without a word, and what its caller wants would not happen: the error has the nearest known name. */
export function unknownName(
  name: string,
  known: readonly string[],
  { code = 'invalid_request', at = '', elsewhere = [] }: NameContext = {},
): CellError {
  const field = at + name.slice(0, SHOWN_MAX).toWellFormed()
  return new CellError(code, `${field} is not known${nameMend(name, known, elsewhere)}`, { field })
}

/** What follows the words "is not known": the nearest name, or all that are known. */
export function nameMend(name: string, known: readonly string[], elsewhere: readonly string[] = []): string {
  const near = nearestName(name, [...known, ...elsewhere])
  if (near !== undefined) return `: did you mean ${near}?`
  if (known.length === 0) return ': none is taken here.'
  return known.length > LISTED_MAX ? '.' : `; known are ${known.join(', ')}.`
}

/** The candidate that a misspelt name most likely means; undefined if none is near. Of equals, the first. */
export function nearestName(name: string, candidates: readonly string[]): string | undefined {
  if (name.length > SHOWN_MAX) return undefined
  const given = plain(name)
  let nearest: string | undefined
  let least = Number.POSITIVE_INFINITY
  for (const candidate of candidates) {
    const known = plain(candidate.slice(candidate.lastIndexOf('.') + 1))
    const tolerated = Math.max(1, Math.floor(Math.max(given.length, known.length) / 3))
    const distance = distanceOf(given, known)
    if (distance > tolerated || distance >= least) continue
    nearest = candidate
    least = distance
  }
  return nearest
}

/** How a name is written does not tell names apart: `ttl_seconds`, `ttlSeconds`. */
function plain(name: string): string {
  return name.toLowerCase().replace(/[_-]/g, '')
}

/** A shorter text begins or ends too many names. */
const PART_LENGTH_MIN = 3

/** The first or the last part of a name counts as one mistake: `ttl` for `ttlSeconds`. */
function distanceOf(given: string, known: string): number {
  const [short, long] = given.length < known.length ? [given, known] : [known, given]
  const isPart = short.length >= PART_LENGTH_MIN && (long.startsWith(short) || long.endsWith(short))
  return Math.min(editDistance(given, known), isPart ? 1 : Number.POSITIVE_INFINITY)
}

/** Letters inserted, removed, replaced or swapped with their neighbour (optimal string alignment). */
function editDistance(a: string, b: string): number {
  let beforeLast: number[] = []
  let last = Array.from({ length: b.length + 1 }, (_, j) => j)
  for (let i = 1; i <= a.length; i++) {
    const row = [i]
    for (let j = 1; j <= b.length; j++) {
      const isSame = a[i - 1] === b[j - 1]
      const change = (last[j - 1] as number) + (isSame ? 0 : 1)
      row[j] = Math.min(change, (last[j] as number) + 1, (row[j - 1] as number) + 1)
      const isSwap = i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1]
      if (isSwap) row[j] = Math.min(row[j] as number, (beforeLast[j - 2] as number) + 1)
    }
    beforeLast = last
    last = row
  }
  return last[b.length] as number
}
