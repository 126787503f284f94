import type { Log } from '../../base/log.ts'
import { fromWireError, toWireError, type WireError } from './wire-error.ts'

/** A line for the node's log. */
export interface LogMessage {
  type: 'log'
  level: keyof Log
  fields: object
  err?: WireError | undefined
  message: string
}

/** Logs through the node. */
export function logToNode(send: (message: LogMessage) => void): Log {
  const at = (level: keyof Log) => (fields: object, message: string) => {
    const { err, ...rest } = fields as { err?: unknown }
    send({ type: 'log', level, fields: rest, err: err === undefined ? undefined : toWireError(err), message })
  }
  return { info: at('info'), warn: at('warn'), error: at('error') }
}

/** Logs a line of a child process. @param child its pid, under the name of its role */
export function logForChild(log: Log, { level, fields, err, message }: LogMessage, child: object): void {
  const cause = err === undefined ? {} : { err: fromWireError(err) }
  log[level]({ ...fields, ...cause, ...child }, message)
}
