import { definedOnly } from '../../base/options/option-shapes.ts'
import { CellError } from '../../errors.ts'
import type { Query } from '../../service/requests/query.ts'
import { WATCHED_TABLES_MAX, type WatchOptions } from '../../store/watch/cell-change.ts'
import type { ChangeStream } from '../../store/watch/change-stream.ts'
import { type Answer, type CellCall, cellActionWithQuery } from '../core/action.ts'
import type { HttpRequest } from '../core/http-message.ts'
import { shuttingDown } from '../core/problem.ts'
import { ChangeEvents } from './change-events.ts'

/** X-Accel-Buffering: proxies would keep events until they have a bufferful. */
const HEADERS = { 'Content-Type': 'text/event-stream; charset=utf-8', 'X-Accel-Buffering': 'no' }

/** Server-Sent Events of a cell's commits: docs/http-api.md. */
export const watchChanges = cellActionWithQuery(['prefix', 'tables'], async (call, query) => {
  const { context, accountId, request } = call
  const options = optionsOf(request, query)
  const release = context.streams.take(accountId ?? '')
  try {
    const changes = await context.service.watch(call.cellId, options, call.permit)
    if (request.method !== 'HEAD') return answerOf(call, changes, release)
    await changes.return()
    release()
    return { status: 200, json: '', headers: { ...HEADERS } }
  } catch (error) {
    release()
    throw error
  }
})

function answerOf(
  { context, request, permit }: CellCall,
  changes: ChangeStream,
  release: () => void,
): Answer {
  const { streams, store, show } = context
  const stream = new ChangeEvents({
    changes,
    clock: store.clock,
    permit,
    show,
    closed: () => {
      streams.delete(stream)
      release()
    },
  })
  streams.add(stream, permit)
  const { signal } = request
  if (signal.aborted) stream.close()
  else signal.addEventListener('abort', () => stream.close(), { once: true })
  if (context.isShuttingDown()) stream.end(shuttingDown())
  return { status: 200, json: '', headers: { ...HEADERS }, stream }
}

function optionsOf(request: HttpRequest, query: Query<'prefix' | 'tables'>): WatchOptions {
  const tables = query.text('tables')?.split(',')
  if (tables !== undefined && (tables.includes('') || tables.length > WATCHED_TABLES_MAX)) {
    const message = `tables must be 1 to ${WATCHED_TABLES_MAX} names with commas between them.`
    throw new CellError('invalid_request', message, { field: 'tables', limit: WATCHED_TABLES_MAX })
  }
  const lastEventId = request.header('last-event-id')
  return definedOnly({
    prefix: query.text('prefix'),
    tables,
    // Clients send an empty one before their first event.
    lastEventId: lastEventId || undefined,
    signal: request.signal,
  })
}
