import { type TracingChannel, tracingChannel } from 'node:diagnostics_channel'
import { isCellError } from '../../errors.ts'

/** A request over HTTP, from when its headers are read until its answer is made. */
export interface RequestTrace {
  requestId: string
  method: string
  /** The route's template, `/v1/databases/{id}/sql`; null if there is no such route. Never the path, which can hold a key. */
  route: string | null
  /** Undefined for the store's owner, where anyone may ask, and until it is known. */
  accountId?: string | undefined
  /** Once it was answered. */
  status?: number | undefined
}

/** An operation that a service runs on a cell, with its wait for a worker. */
export interface OperationTrace {
  cellId: string
  /** What is done: `sql`, `batch`, `kv.put`. A body that nobody has read yet counts as what it holds. */
  op: string
  requestId?: string | undefined
}

/** A backup, with its wait for its turn. */
export interface BackupTrace {
  cellId: string
  kind: string
  origin: string
  requestId?: string | undefined
}

/** A restore, with its wait for its turn. */
export interface RestoreTrace {
  cellId: string
  /** Undefined: the newest. */
  version: string | undefined
  /** Of a cell whose local data was lost: nobody asked for it by name. */
  recovers: boolean
  requestId?: string | undefined
}

/** The channels of `node:diagnostics_channel`. None ever carries a value, a key, or the text of a statement. */
export const channels = {
  request: tracingChannel<unknown, RequestTrace>('cellstore:request'),
  operation: tracingChannel<unknown, OperationTrace>('cellstore:operation'),
  backup: tracingChannel<unknown, BackupTrace>('cellstore:backup'),
  restore: tracingChannel<unknown, RestoreTrace>('cellstore:restore'),
}

/**
 * Runs work that subscribers of a channel are told of. Without subscribers this is the call of `run`, and no context is
 * made. Subscribers get neither the result nor the error: of an error they get its code.
 */
export function traced<Context extends object, T>(
  channel: TracingChannel<unknown, Context>,
  context: () => Context,
  run: (context?: Context) => Promise<T>,
): Promise<T> {
  return channel.hasSubscribers ? tell(channel, context(), run) : run()
}

async function tell<Context extends object, T>(
  channel: TracingChannel<unknown, Context>,
  context: Context,
  run: (context: Context) => Promise<T>,
): Promise<T> {
  let settle = (): T => {
    throw new Error('The work of a trace has not ended.')
  }
  const work = async () => {
    try {
      const value = await run(context)
      settle = () => value
    } catch (error) {
      settle = () => {
        throw error
      }
      throw { code: isCellError(error) ? error.code : 'internal' }
    }
  }
  await channel.tracePromise(work, context).catch(() => {})
  return settle()
}
