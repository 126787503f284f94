import type { Log } from '../../base/log.ts'
import { toWireError, type WireError } from './wire-error.ts'

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
