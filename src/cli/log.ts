import pino, { type Logger } from 'pino'
import { API_KEY_PREFIX } from '../auth/api-key.ts'

export const LOG_LEVELS = ['silent', 'error', 'warn', 'info', 'debug'] as const
export type LogLevel = (typeof LOG_LEVELS)[number]

/** Standard error: a terminal or not. */
export interface LogStream {
  readonly isTTY?: boolean
  write(text: string): unknown
}

/** Nothing of ours logs a key; this is for what others' errors may quote (invariant 12). */
const KEY = new RegExp(`${API_KEY_PREFIX}[0-9A-Za-z]{8,}`, 'g')

/** One JSON object a line; on a terminal, a line for people. */
export function createLog(level: LogLevel, stream: LogStream): Logger {
  const show = stream.isTTY === true ? lineForPeople : (line: string) => line
  return pino(
    { level, base: { pid: process.pid }, timestamp: pino.stdTimeFunctions.isoTime },
    { write: (line: string) => stream.write(withoutKeys(show(line))) },
  )
}

export function withoutKeys(text: string): string {
  return text.replace(KEY, `${API_KEY_PREFIX}…`)
}

/** As pino writes an error. */
interface LoggedError {
  type?: string
  message?: string
  stack?: string
  code?: string
}

interface LogLine {
  level: number
  time: string
  msg?: string
  pid?: number
  err?: LoggedError
  [field: string]: unknown
}

function lineForPeople(json: string): string {
  const { level, time, msg, pid: _, err, ...fields } = JSON.parse(json) as LogLine
  const label = pino.levels.labels[level] ?? String(level)
  const rest = Object.entries(fields).map(([name, value]) => `${name}=${JSON.stringify(value)}`)
  const why = err === undefined ? [] : [`(${isForeseen(err) ? err.message : (err.stack ?? err.message)})`]
  return `${[time.slice(11, 19), label.padEnd(5), msg ?? '', ...rest, ...why].join(' ')}\n`
}

/** An error of ours says it all in its message; of any other, where it came from matters. */
function isForeseen({ type, code }: LoggedError): boolean {
  return type === 'CellError' && code !== 'internal'
}
