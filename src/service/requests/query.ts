import { unknownName } from '../../base/options/known-names.ts'
import { pageLimit } from '../../base/paging.ts'
import { CellError } from '../../errors.ts'

/** No request has more than five. */
const PARAMETERS_MAX = 64

/** The parameters of a query string, each decoded once. */
export class Query<Name extends string = never> {
  readonly #values = new Map<string, string>()

  /**
   * @param known the names that the route takes
   * @throws `invalid_request` for other names, for a name that comes twice, for percent-encoding that is not UTF-8, and for too
   * many parameters
   */
  constructor(query: string, known: readonly Name[]) {
    if (query === '') return
    const pairs = query.split('&', PARAMETERS_MAX + 1)
    if (pairs.length > PARAMETERS_MAX) throw tooManyParameters()
    const names: readonly string[] = known
    for (const pair of pairs) {
      if (pair === '') continue
      const equals = pair.indexOf('=')
      const name = decode(equals === -1 ? pair : pair.slice(0, equals), 'query')
      if (!names.includes(name)) throw unknownName(name, names)
      if (this.#values.has(name)) throw repeated(name)
      this.#values.set(name, equals === -1 ? '' : decode(pair.slice(equals + 1), name))
    }
  }

  text(name: Name): string | undefined {
    return this.#values.get(name)
  }

  /** `?reverse`, `?reverse=true` and `?reverse=1` switch on. @throws `invalid_request` */
  flag(name: Name): boolean {
    const value = this.#values.get(name)
    if (value === undefined || value === 'false' || value === '0') return false
    if (value === '' || value === 'true' || value === '1') return true
    throw new CellError('invalid_request', `${name} must be true or false.`, { field: name })
  }

  /** How many entries a page may have. @throws `invalid_request` */
  limit(defaultValue: number, max: number): number {
    const value = this.#values.get('limit')
    if (value === undefined) return pageLimit(undefined, max, defaultValue)
    return pageLimit(/^\d{1,9}$/.test(value) ? Number(value) : Number.NaN, max)
  }
}

/** A parameter that is ignored would be a request that does something else than its sender wants. @throws `invalid_request` */
export function refuseQuery(query: string, known: readonly string[] = []): void {
  if (query !== '') new Query(query, known)
}

/** As HTML forms and URLSearchParams encode, but refuses what is not UTF-8 instead of replacing it with U+FFFD. */
function decode(text: string, name: string): string {
  try {
    return decodeURIComponent(text.replaceAll('+', ' '))
  } catch {
    throw new CellError('invalid_request', `${name} is not percent-encoded UTF-8.`, { field: name })
  }
}

/** Which of them counts is a guess that a proxy and a server make differently. */
function repeated(name: string): CellError {
  const message = `${name} comes twice in the query: send it once.`
  return new CellError('invalid_request', message, { field: name })
}

function tooManyParameters(): CellError {
  const message = `A query has at most ${PARAMETERS_MAX} parameters.`
  return new CellError('invalid_request', message, { field: 'query', limit: PARAMETERS_MAX })
}
