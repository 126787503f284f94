import { CellError } from '../../errors.ts'
import type { SqlTokens } from '../sql-policy/sql-lexer.ts'

/** What the driver takes: values for the places without a name, then the named ones. */
type DriverParams<V> = [unnamed: readonly V[], named: Readonly<Record<string, V>>]

const NUMBERED = /\?\d/

/**
 * The placeholders of a statement that numbers some of its own (`?2`), by SQLite's rules: `?` and a new name take the next
 * number. The driver takes a number for a name, and each number that was left out for a value to be given.
 */
export class Placeholders {
  /** By number, from 1: its name as it was written (`?2`, `:a`), or undefined for `?` and for what was left out. */
  readonly #names: (string | undefined)[] = []
  #hasPlain = false

  /** @returns undefined for a statement without numbers, which the driver understands as we do */
  static of(tokens: SqlTokens): Placeholders | undefined {
    return NUMBERED.test(tokens.sql) ? new Placeholders(tokens) : undefined
  }

  private constructor(tokens: SqlTokens) {
    const names = this.#names
    names.length = 1
    const seen = new Set<string>()
    for (let i = 0; ; i++) {
      const token = tokens.at(i)
      if (token === undefined) break
      if (token.kind !== 'variable') continue
      const { text } = token
      if (text === '?') {
        names.push(undefined)
        this.#hasPlain = true
      } else if (text.startsWith('?')) this.#number(Number(text.slice(1)), text)
      else if (!seen.has(text)) names.push(text)
      seen.add(text)
    }
  }

  /** Values in order: the n-th is `?n`. @throws `param_count_mismatch` */
  bindList<V>(values: readonly V[]): DriverParams<V> {
    const named = this.#names.find((name) => name !== undefined && !name.startsWith('?'))
    if (named !== undefined)
      throw mismatch(
        `The statement has a placeholder called ${named}: give an object, with a member for each.`,
      )
    const count = this.#names.length - 1
    if (values.length !== count)
      throw mismatch(`The statement's placeholders go up to ?${count}, and ${values.length} parameters came.`)
    return this.#sort((_, number) => values[number - 1] as V)
  }

  /** Values by name or number; what no placeholder stands for is not asked for. @throws `param_count_mismatch` */
  bindNamed<V>(values: Readonly<Record<string, V>>, none: V): DriverParams<V> {
    if (this.#hasPlain)
      throw mismatch(
        'The statement has placeholders that are only a ?: give a list, in the order of their numbers.',
      )
    return this.#sort((name, number) => {
      if (name === undefined) return none
      const key = [name.slice(1), String(number)].find((each) => Object.hasOwn(values, each))
      if (key === undefined) throw mismatch(`The parameter for ${name} is missing.`)
      return values[key] as V
    })
  }

  #number(number: number, text: string): void {
    const names = this.#names
    if (number >= names.length) names.length = number + 1
    names[number] ??= text
  }

  #sort<V>(pick: (name: string | undefined, number: number) => V): DriverParams<V> {
    const unnamed: V[] = []
    const named: Record<string, V> = Object.create(null)
    for (let number = 1; number < this.#names.length; number++) {
      const name = this.#names[number]
      const value = pick(name, number)
      if (name === undefined) unnamed.push(value)
      else named[name.slice(1)] = value
    }
    return [unnamed, named]
  }
}

function mismatch(message: string): CellError {
  return new CellError('param_count_mismatch', message)
}
