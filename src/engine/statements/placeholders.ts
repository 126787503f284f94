import { CellError } from '../../errors.ts'
import { SqlTokens } from '../sql-policy/sql-lexer.ts'
import type { Bindable } from './sql-values.ts'

/** What the driver takes: values for the unnamed placeholders, then the named ones. */
type DriverParams = [unnamed: readonly Bindable[], named: Readonly<Record<string, Bindable>>]

const NUMBERED = /\?\d/

/**
 * The placeholders of a statement with numbered ones (`?2`), by SQLite's rules: `?` and a new name take the next number. The
 * driver takes a number for a name, and wants a value for each number that was left out.
 */
export class Placeholders {
  /** By number, from 1: its name as written (`?2`, `:a`), or undefined for `?` and for a number that was left out. */
  readonly #names: (string | undefined)[] = []
  #hasPlain = false

  /** @returns undefined for a statement without numbers, which the driver binds as SQLite does */
  static of(tokens: SqlTokens): Placeholders | undefined {
    return NUMBERED.test(tokens.sql) ? new Placeholders(tokens) : undefined
  }

  /** Those of any statement. */
  static in(sql: string): Placeholders {
    return new Placeholders(new SqlTokens(sql))
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

  /** By number, from the first: its name as written, or null for `?` and for a number that was left out. */
  get names(): (string | null)[] {
    return this.#names.slice(1).map((name) => name ?? null)
  }

  /** Values by name, with its sign or without it, and otherwise by number. @throws `param_count_mismatch` */
  bindMixed(list: readonly Bindable[], named: ReadonlyMap<string, Bindable>): DriverParams {
    const count = this.#names.length - 1
    if (list.length > count)
      throw mismatch(
        `The statement's placeholders go up to ?${count}, but ${list.length} parameters were passed.`,
      )
    return this.#sort((name, number) => {
      const key = name === undefined ? undefined : [name, name.slice(1)].find((each) => named.has(each))
      const value = key === undefined ? list[number - 1] : named.get(key)
      if (value !== undefined) return value
      if (name === undefined && !this.#hasPlain) return null
      throw mismatch(`The parameter for ${name ?? `?${number}`} is missing.`)
    })
  }

  /** Values in order: the n-th is `?n`. @throws `param_count_mismatch` */
  bindList(values: readonly Bindable[]): DriverParams {
    const named = this.#names.find((name) => name !== undefined && !name.startsWith('?'))
    if (named !== undefined)
      throw mismatch(
        `The statement has a placeholder called ${named}: pass an object with a member for each placeholder.`,
      )
    const count = this.#names.length - 1
    if (values.length !== count)
      throw mismatch(
        `The statement's placeholders go up to ?${count}, but ${values.length} parameters were passed.`,
      )
    return this.#sort((_, number) => values[number - 1] as Bindable)
  }

  /** Values by name or number. Others are ignored, as by the driver: a misspelt one leaves its placeholder without a value. @throws `param_count_mismatch` */
  bindNamed(values: Readonly<Record<string, Bindable>>): DriverParams {
    if (this.#hasPlain)
      throw mismatch(
        'The statement has placeholders without a name or number (?): pass an array, in the order of the numbers.',
      )
    return this.#sort((name, number) => {
      if (name === undefined) return null
      const key = [name.slice(1), String(number)].find((each) => Object.hasOwn(values, each))
      if (key === undefined) throw mismatch(`The parameter for ${name} is missing.`)
      return values[key] as Bindable
    })
  }

  #number(number: number, text: string): void {
    const names = this.#names
    if (number >= names.length) names.length = number + 1
    names[number] ??= text
  }

  #sort(pick: (name: string | undefined, number: number) => Bindable): DriverParams {
    const unnamed: Bindable[] = []
    const named: Record<string, Bindable> = Object.create(null)
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
