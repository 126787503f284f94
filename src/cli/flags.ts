import path from 'node:path'
import { pathToFileURL } from 'node:url'
import { type Command, InvalidArgumentError, Option } from 'commander'
import { isCellError } from '../errors.ts'
import { parseDuration } from './duration.ts'
import { LOG_LEVELS, type LogLevel } from './log.ts'

/** What every command that has to do with a store can be told. */
export interface StoreFlags {
  dataDir: string
  objectStore?: string
  /** Milliseconds. */
  objectStoreWait: number
  logLevel: LogLevel
  json?: true
}

/** Adds the flags of {@link StoreFlags}, and the variables behind them. */
export function addStoreFlags(
  command: Command,
  { logLevel = 'warn' }: { logLevel?: LogLevel } = {},
): Command {
  return command
    .addOption(
      new Option('--data-dir <folder>', "the store's directory")
        .env('CELLSTORE_DATA_DIR')
        .default('./data', './data'),
    )
    .addOption(
      new Option(
        '--object-store <url>',
        'where backups live: file:///folder, file://./folder or s3://bucket/prefix?endpoint=…&region=…&path_style=… (credentials in AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY); default: the folder objects beside the data directory',
      ).env('CELLSTORE_OBJECT_STORE'),
    )
    .addOption(
      durationOption(
        '--object-store-wait <duration>',
        'how long to wait for an object store that does not answer, where the data directory is empty',
      ).default(60_000, '60s'),
    )
    .addOption(
      new Option('--log-level <level>', 'how much is logged to standard error')
        .env('CELLSTORE_LOG_LEVEL')
        .choices(LOG_LEVELS)
        .default(logLevel),
    )
    .addOption(jsonOption())
}

export function jsonOption(): Option {
  return new Option('--json', 'print one JSON document, and errors as {code, message}')
}

export function durationOption(flags: string, description: string): Option {
  return new Option(flags, description).argParser(argument(parseDuration))
}

/** A whole number within bounds. */
export function numberOption(flags: string, description: string, min: number, max: number): Option {
  return new Option(flags, description).argParser((text) => {
    const number = /^\d{1,15}$/.test(text) ? Number(text) : Number.NaN
    if (number >= min && number <= max) return number
    const range = max === Number.MAX_SAFE_INTEGER ? `from ${min}` : `from ${min} to ${max}`
    throw new InvalidArgumentError(`It takes a whole number ${range}.`)
  })
}

/** The object store that the flags name. By default it lies beside the data: what is inside would be lost with it. */
export function objectStoreOf({ dataDir, objectStore }: StoreFlags): string {
  return objectStore ?? pathToFileURL(path.join(path.dirname(path.resolve(dataDir)), 'objects')).href
}

/** So that commander names the flag, or the variable, that held what could not be read. */
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
