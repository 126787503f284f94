import { having } from './options/option-shapes.ts'

/** Gets what no caller is told, with pino's order of arguments. Never a key, a value or an SQL parameter. */
export interface Log {
  /** What happened, as it should. */
  info(fields: object, message: string): void
  /** What a person should look at, some time. */
  warn(fields: object, message: string): void
  /** What a person has to look at. */
  error(fields: object, message: string): void
}

export const LOG = having<Log>('info', 'warn', 'error')

/** A log that hands its lines on to another one. */
export interface LogInFront extends Log {
  readonly behind: Log
}

export const silentLog: Log = { info() {}, warn() {}, error() {} }

/** Whether nobody reads it. */
export function isSilent(log: Log): boolean {
  return log === silentLog || ('behind' in log && isSilent((log as LogInFront).behind))
}
