import fs from 'node:fs'
import path from 'node:path'
import { pathToFileURL } from 'node:url'
import { type Command, InvalidArgumentError, Option } from 'commander'
import { PLAN_DEFAULT, parsePlan, TENANT_PLAN_DEFAULT } from '../backup/versions/retention/retention-plan.ts'
import { systemClock } from '../base/clock.ts'
import { checkPath } from '../base/files/path-argument.ts'
import { StorePaths } from '../base/files/store-paths.ts'
import { RememberedObjectStore } from '../catalog/remembered-object-store.ts'
import { CellError, isCellError } from '../errors.ts'
import { decodeTime } from '../service/json/time.ts'
import { DEFAULT_HISTORY_MS } from '../store/settings/settings.ts'
import { LOG_LEVELS, type LogLevel } from './log.ts'
import type { RemoteFlags } from './remote/remote-node.ts'

/** The flags of every command that works on a store; those of a remote node, if it can work on one. */
export interface StoreFlags extends RemoteFlags {
  dataDir: string
  objectStore?: string
  /** In milliseconds. */
  objectStoreWait: number
  logLevel: LogLevel
  json?: true
  /** Plans, as they are written. Only some commands take them. */
  keep?: string
  keepTenant?: string
  /** In milliseconds. */
  history?: number
}

const UNITS_MS: Readonly<Record<string, number>> = { s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 }
/** Nobody means a duration of more digits. */
const AMOUNT_DIGITS_MAX = 9

/** Adds the flags of {@link StoreFlags}, and the variables behind them. */
export function addStoreFlags(
  command: Command,
  { logLevel = 'warn' }: { logLevel?: LogLevel } = {},
): Command {
  return command
    .addOption(
      new Option('--data-dir <folder>', "the store's directory")
        .env('CELLSTORE_DATA_DIR')
        .default('./data', './data')
        .argParser(
          argument((text) => {
            checkPath(text, { field: 'It', code: 'invalid_setting' })
            return text
          }),
        ),
    )
    .addOption(
      new Option(
        '--object-store <url>',
        'where backups are stored: file:///folder, file://./folder or s3://bucket/prefix?endpoint=…&region=…&path_style=… (credentials in AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY); default: the one that the data directory has used so far, or the folder objects next to it',
      ).env('CELLSTORE_OBJECT_STORE'),
    )
    .addOption(
      durationOption(
        '--object-store-wait <duration>',
        'with an empty data directory, how long to wait for an object store that does not answer',
      )
        .env('CELLSTORE_OBJECT_STORE_WAIT')
        .default(60_000, '60s'),
    )
    .addOption(
      new Option('--log-level <level>', 'how much to log to standard error')
        .env('CELLSTORE_LOG_LEVEL')
        .choices(LOG_LEVELS)
        .default(logLevel),
    )
    .addOption(jsonOption())
}

/** Adds what decides which versions of a cell stay. */
export function addPlanFlags(command: Command): Command {
  return command
    .addOption(
      planOption(
        '--keep <plan>',
        'which versions of a cell stay, by their age; all:forever removes none but those that --keep-tenant lets go',
      )
        .env('CELLSTORE_KEEP')
        .default(PLAN_DEFAULT),
    )
    .addOption(
      planOption(
        '--keep-tenant <plan>',
        'which versions stay, in addition, that tenants made with their keys',
      )
        .env('CELLSTORE_KEEP_TENANT')
        .default(TENANT_PLAN_DEFAULT),
    )
    .addOption(
      durationOption('--history <duration>', 'how far back a cell can be restored to any moment')
        .env('CELLSTORE_KEEP_HISTORY')
        .default(DEFAULT_HISTORY_MS, '7d'),
    )
}

function planOption(flags: string, description: string): Option {
  return new Option(flags, description).argParser(
    argument((text) => {
      parsePlan(text)
      return text
    }),
  )
}

/** A plan as an argument, or `default` for the plan of the store. */
export const planOrDefault = argument((text) => {
  if (text !== 'default') parsePlan(text)
  return text
})

export function jsonOption(): Option {
  return new Option('--json', 'print one JSON document; errors are {code, message}')
}

/** In milliseconds. @throws `InvalidArgumentError` */
export const durationArgument = argument(parseDuration)

export function durationOption(flags: string, description: string): Option {
  return new Option(flags, description).argParser(durationArgument)
}

/** Milliseconds, or false for `never` or `off`. Commander makes an empty text of a null. */
export type Switchable = number | false

interface Durations {
  /** What turns it off. */
  off: 'never' | 'off'
  /** What the message of a wrong one says in place of what any duration is. */
  says?: string
  parse?: (text: string) => number
}

/** A duration in milliseconds, or false for `never`. */
export function intervalOption(flags: string, description: string): Option {
  return switchable(flags, description, { off: 'never' })
}

/** As {@link intervalOption}, and also in milliseconds: `250ms`. */
export function shortIntervalOption(flags: string, description: string): Option {
  const parse = (text: string) => {
    const [, digits] = /^(\d{1,9})ms$/.exec(text) ?? []
    return digits !== undefined && Number(digits) > 0 ? Number(digits) : parseDuration(text)
  }
  const says = 'It must be a whole number above 0 with its unit, such as 250ms, 2s or 1m'
  return switchable(flags, description, { off: 'never', says, parse })
}

/** A duration in milliseconds within bounds, or false for `off`. */
export function boundedOption(
  flags: string,
  description: string,
  bounds: { min: string; max: string },
): Option {
  const [min, max] = [parseDuration(bounds.min), parseDuration(bounds.max)]
  const says = `It must be a duration from ${bounds.min} to ${bounds.max}`
  const parse = (text: string) => {
    const ms = parseDuration(text)
    if (ms >= min && ms <= max) return ms
    throw new CellError('invalid_setting', says)
  }
  return switchable(flags, description, { off: 'off', says, parse })
}

function switchable(
  flags: string,
  description: string,
  { off, says, parse = parseDuration }: Durations,
): Option {
  return new Option(flags, description).argParser((text): Switchable => {
    if (text === off) return false
    try {
      return parse(text)
    } catch (error) {
      if (!isCellError(error)) throw error
      throw new InvalidArgumentError(`${says ?? error.message.replace(/\.$/, '')}, or ${off}.`)
    }
  })
}

/** A whole number within bounds. */
export function numberOption(flags: string, description: string, min: number, max: number): Option {
  return new Option(flags, description).argParser((text) => {
    const number = /^\d{1,15}$/.test(text) ? Number(text) : Number.NaN
    if (number >= min && number <= max) return number
    const range = max === Number.MAX_SAFE_INTEGER ? `from ${min}` : `from ${min} to ${max}`
    throw new InvalidArgumentError(`It must be a whole number ${range}.`)
  })
}

/**
 * Reads a duration such as `30s`, `15m`, `24h` or `7d`. The unit is required: `15` could mean anything.
 *
 * @returns milliseconds
 * @throws `invalid_setting`
 */
export function parseDuration(text: string): number {
  const [, amount = '', unit = ''] = /^(\d+)([smhd])$/.exec(text) ?? []
  const ms = Number(amount) * (UNITS_MS[unit] ?? 0)
  if (ms > 0 && amount.length <= AMOUNT_DIGITS_MAX) return ms
  throw new CellError(
    'invalid_setting',
    'A duration is a whole number above 0 with its unit: 30s, 15m, 24h or 7d.',
  )
}

/**
 * The object store that the flags name, or else the one that the directory's backups go to. For a new directory it lies next
 * to it: inside, it would be lost with it.
 */
export function objectStoreOf({ dataDir, objectStore }: StoreFlags): string {
  if (objectStore !== undefined) return objectStore
  const nextToIt = path.join(path.dirname(path.resolve(dataDir)), 'objects')
  const { url } = RememberedObjectStore.read(new StorePaths(dataDir))
  // Both folders may have been moved together: then the start says what to do.
  const hasMoved = url?.startsWith('file:') && !fs.existsSync(new URL(url)) && fs.existsSync(nextToIt)
  return url === undefined || hasMoved ? pathToFileURL(nextToIt).href : url
}

/** Makes commander name the flag or the variable that has the bad value. */
function argument<T>(parse: (text: string) => T): (text: string) => T {
  return (text) => {
    try {
      return parse(text)
    } catch (error) {
      if (isCellError(error)) throw new InvalidArgumentError(error.message)
      throw error
    }
  }
}

const SIZES: Readonly<Record<string, number>> = { KiB: 2 ** 10, MiB: 2 ** 20, GiB: 2 ** 30 }

/** What {@link parseBytes} takes, for messages. */
export const BYTES_FORM = 'a number of bytes such as 65536, 64KiB or 2MiB'

/** Reads a number of bytes, with or without a unit. @returns NaN for a text that is none */
export function parseBytes(text: string): number {
  const [, digits, unit] = /^(\d{1,15})(KiB|MiB|GiB)?$/.exec(text) ?? []
  if (digits === undefined) return Number.NaN
  return Number(digits) * (unit === undefined ? 1 : (SIZES[unit] as number))
}

/** As {@link parseBytes} reads it, with the largest unit that keeps it whole. */
export function spellBytes(bytes: number): string {
  for (const unit of ['GiB', 'MiB', 'KiB']) {
    const each = SIZES[unit] as number
    if (bytes >= each && bytes % each === 0) return `${bytes / each}${unit}`
  }
  return String(bytes)
}

/** Which state of a cell is meant: one of these, or the newest. */
export interface MomentFlags {
  version?: string
  at?: string
}

/** A moment in the past: a time, or how long ago it was. */
export function atOption(description: string): Option {
  return new Option(
    '--at <time>',
    `${description}, such as 2026-01-31T12:00:00Z, or -10m for ten minutes ago`,
  )
    .conflicts('version')
    .argParser(argument((text) => parseMoment(text, systemClock.now())))
}

/** @returns the time in RFC 3339 @throws `invalid_request`, `invalid_setting` */
export function parseMoment(text: string, now: number): string {
  if (text.startsWith('-')) return new Date(now - parseDuration(text.slice(1))).toISOString()
  try {
    decodeTime(text, '--at')
  } catch (error) {
    const hint = 'It must be a time such as 2026-01-31T12:00:00Z, or how long ago it was, such as -10m.'
    throw new CellError('invalid_setting', hint, { field: 'at', cause: error })
  }
  return text
}
