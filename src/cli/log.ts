import pino, { type Logger } from 'pino'
import { API_KEY_PREFIX } from '../auth/api-key.ts'
import { CellError } from '../errors.ts'
import { visible, visibleLines } from './terminal/output.ts'

export const LOG_LEVELS = ['silent', 'error', 'warn', 'info', 'debug'] as const
export type LogLevel = (typeof LOG_LEVELS)[number]

/** Standard error: a terminal or not. */
export interface LogStream {
  readonly isTTY?: boolean
  write(text: string): unknown
}

/** cellstore itself logs no key, but an error of a library could quote one (invariant 12). */
const KEY = new RegExp(`${API_KEY_PREFIX}[0-9A-Za-z]{8,}`, 'g')

/** One JSON object per line; on a terminal, lines for people. */
export function createLog(level: LogLevel, stream: LogStream): Logger {
  const show = stream.isTTY === true ? lineForPeople : (line: string) => line
  return pino(
    {
      level,
      base: { pid: process.pid },
      timestamp: pino.stdTimeFunctions.isoTime,
      serializers: { err: loggedError },
    },
    { write: (line: string) => stream.write(withoutKeys(show(line))) },
  )
}

export function withoutKeys(text: string): string {
  return text.replace(KEY, `${API_KEY_PREFIX}…`)
}

/** The message and the stack include those of the causes. */
interface LoggedError {
  type?: string | undefined
  message?: string | undefined
  stack?: string | undefined
  code?: unknown
  details?: unknown
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
  const rest = Object.entries(fields).map(([name, value]) => visible(`${name}=${JSON.stringify(value)}`))
  const why = err === undefined ? [] : [`(${visibleLines(String(err.stack ?? err.message))})`]
  return `${[time.slice(11, 19), label.padEnd(5), msg ?? '', ...rest, ...why].join(' ')}\n`
}

/** A foreseen error says everything in its message. For any other error, the stack says where it came from. */
function loggedError(error: unknown): LoggedError {
  if (!(error instanceof Error)) return { message: String(error) }
  const { type, message, stack, code, details } = pino.stdSerializers.err(error) as LoggedError
  if (error instanceof CellError && error.code !== 'internal') return { type, message, code, details }
  return { type, message, stack, code }
}
