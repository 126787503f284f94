import { InvalidArgumentError, Option } from 'commander'
import { BYTES_FORM, parseBytes, parseDuration, spellBytes } from '../../flags.ts'
import { formatDuration } from '../../terminal/output.ts'

/** How a flag and its variable spell a limit. */
export type LimitUnit =
  /** A whole number. */
  | 'count'
  /** `4096`, `64KiB`, `2MiB`, `1GiB`; the setting has bytes. */
  | 'bytes'
  /** A whole number of mebibytes; the setting has bytes. */
  | 'mebibytes'
  /** `40ms`, `30s`, `15m`; the setting has milliseconds. */
  | 'duration'

/** One limit. Its flag, its variable and its row in docs/limits.md come from here. */
export interface LimitRow {
  /** Without the dashes. The variable is CELLSTORE_ and the same words. */
  flag: string
  unit: LimitUnit
  /** In the setting's own unit. Missing: {@link otherwise} says what holds. */
  default?: number
  /** What holds without a number. */
  otherwise?: string
  /** What is bounded: the end of "the most …". */
  about: string
  /** The error's code and what else happens when it is exceeded. */
  over: string
  /** 1 by default. Like `max`, in the setting's own unit. */
  min?: number
  max?: number
}

const MIB = 1_048_576
const PLACEHOLDERS: Readonly<Record<LimitUnit, string>> = {
  count: 'number',
  bytes: 'bytes',
  mebibytes: 'mebibytes',
  duration: 'duration',
}

export function variableOf({ flag }: LimitRow): string {
  return `CELLSTORE_${flag.toUpperCase().replaceAll('-', '_')}`
}

/** Where commander puts the flag's value. */
export function memberOf({ flag }: LimitRow): string {
  return flag.replace(/-(.)/g, (_, letter: string) => letter.toUpperCase())
}

export function limitOption(row: LimitRow): Option {
  const { flag, unit, about, otherwise } = row
  const described = otherwise === undefined ? about : `${about} (default: ${otherwise})`
  const option = new Option(`--${flag} <${PLACEHOLDERS[unit]}>`, described)
    .env(variableOf(row))
    .argParser((text) => parseLimit(row, text))
  return row.default === undefined ? option : option.default(row.default, spell(row, row.default))
}

/** @throws `InvalidArgumentError`, which says the range */
function parseLimit(row: LimitRow, text: string): number {
  const { min = 1, max = Number.MAX_SAFE_INTEGER } = row
  const value = amountOf(row.unit, text)
  if (value >= min && value <= max) return value
  const range =
    max === Number.MAX_SAFE_INTEGER
      ? `from ${spell(row, min)}`
      : `from ${spell(row, min)} to ${spell(row, max)}`
  throw new InvalidArgumentError(`It must be ${FORMS[row.unit]}, ${range}.`)
}

const FORMS: Readonly<Record<LimitUnit, string>> = {
  count: 'a whole number',
  bytes: BYTES_FORM,
  mebibytes: 'a whole number of mebibytes',
  duration: 'a duration such as 40ms, 30s or 15m',
}

/** NaN if the text is none. */
function amountOf(unit: LimitUnit, text: string): number {
  if (unit === 'duration') return milliseconds(text)
  if (unit === 'bytes') return parseBytes(text)
  if (!/^\d{1,15}$/.test(text)) return Number.NaN
  return Number(text) * (unit === 'mebibytes' ? MIB : 1)
}

/** Other durations of the command have no use for milliseconds, and do not take them. */
function milliseconds(text: string): number {
  const [, digits] = /^(\d{1,9})ms$/.exec(text) ?? []
  if (digits !== undefined) return Number(digits)
  try {
    return parseDuration(text)
  } catch {
    return Number.NaN
  }
}

/** As the flag takes it. */
export function spell({ unit }: Pick<LimitRow, 'unit'>, value: number): string {
  if (unit === 'mebibytes') return String(value / MIB)
  if (unit === 'duration') return formatDuration(value)
  return unit === 'bytes' ? spellBytes(value) : String(value)
}
