import type { ChangeEvent, ChangesOptions } from './change-types.ts'
import { EventReader } from './event-reader.ts'
import { ProblemError } from './problem-error.ts'
import type { Problem } from './types.ts'

/** How a stream is asked for, and what is waited for before it is asked for again. */
export interface ChangesSource {
  /** @throws `ProblemError` for a refusal */
  open(headers: Record<string, string>): Promise<Response>
  wait(ms: number, signal?: AbortSignal): Promise<void>
}

/** Until the server says how long to wait. */
const RETRY_MS = 1_000
/** The server goes away, and another one takes over. */
const COMES_BACK: readonly string[] = ['shutting_down', 'busy', 'cell_restoring']

/** The changes of a cell. A connection that ends is made again, and goes on where it ended. */
export async function* readChanges(
  source: ChangesSource,
  { lastEventId, signal, headers }: ChangesOptions,
): AsyncGenerator<ChangeEvent, void, undefined> {
  let last = lastEventId
  let retryMs = RETRY_MS
  for (;;) {
    signal?.throwIfAborted()
    const reader = new EventReader()
    try {
      const sent = { ...headers, ...(last === undefined ? {} : { 'last-event-id': last }) }
      const { body } = await source.open(sent)
      for await (const event of reader.read(body as ReadableStream<Uint8Array>)) {
        if (event.type === 'end') throw ended(event)
        yield event
      }
    } catch (error) {
      signal?.throwIfAborted()
      const isRefusal = error instanceof ProblemError && !COMES_BACK.includes(error.code)
      // What fetch throws is a TypeError: the connection was not made, or has broken off.
      if (isRefusal || !(error instanceof ProblemError || error instanceof TypeError)) throw error
    }
    last = reader.lastEventId ?? last
    retryMs = reader.retryMs ?? retryMs
    await source.wait(retryMs, signal)
  }
}

function ended({ code, detail }: { code: string; detail: string }): ProblemError {
  const problem = {
    type: 'about:blank',
    title: 'The stream has ended',
    status: 200,
    detail,
    code,
    request_id: '',
  }
  return new ProblemError(problem as Problem)
}
