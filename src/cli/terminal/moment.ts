import { Option } from 'commander'
import { systemClock } from '../../base/clock.ts'
import { CellError } from '../../errors.ts'
import { decodeTime } from '../../service/json/time.ts'
import { argument, parseDuration } from '../flags.ts'

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
