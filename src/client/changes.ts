import { createParser } from 'eventsource-parser'
import { ConnectionLost } from './connection-lost.ts'
import { ProblemError } from './problem-error.ts'
import type { ChangeEvent, ChangesOptions, Problem } from './types.ts'

/** How a stream is asked for, and what is waited for before it is asked for again. */
export interface ChangesSource {
  /** @throws `ProblemError` for a refusal, `ConnectionLost`; `TypeError` for what was asked wrongly, or not answered by a server */
  open(headers: Headers): Promise<Response>
  wait(ms: number, signal?: AbortSignal): Promise<void>
}

/** Until the server says how long to wait. */
const RETRY_MS = 1_000
/** The server goes away, and another one takes over. */
const COMES_BACK: readonly string[] = [
  'shutting_down',
  'busy',
  'cell_restoring',
  'cell_moving',
  'not_serving',
]

/**
 * The changes of a cell. A connection that ends is made again, and goes on where it ended.
 *
 * @throws `TypeError` for a mistake in the call, which no other try would mend
 */
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
      const sent = new Headers(headers)
      if (last !== undefined) sent.set('last-event-id', last)
      for await (const event of reader.read(bodyOf(await source.open(sent)))) {
        if (event.type === 'end') throw ended(event)
        yield event
      }
    } catch (error) {
      signal?.throwIfAborted()
      const comesBack = error instanceof ProblemError && COMES_BACK.includes(error.code)
      if (!comesBack && !(error instanceof ConnectionLost)) throw error
    }
    last = reader.lastEventId ?? last
    retryMs = reader.retryMs ?? retryMs
    await source.wait(retryMs, signal)
  }
}

/** @throws `TypeError` for an answer of something else */
function bodyOf({ status, headers, body }: Response): ReadableStream<Uint8Array> {
  if (body !== null && /^text\/event-stream\b/.test(headers.get('content-type') ?? '')) return body
  void body?.cancel()
  throw new TypeError(`The server answered ${status} without a stream of events.`)
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

type EndEvent = { type: 'end'; code: string; detail: string }

/** Reads Server-Sent Events from a body. */
export class EventReader {
  /** Of the last event that was read. */
  lastEventId: string | undefined
  /** Milliseconds to wait before the next connection, if the server has said that. */
  retryMs: number | undefined
  #events: (ChangeEvent | EndEvent)[] = []

  /** @throws `ConnectionLost` if the body breaks off */
  async *read(body: ReadableStream<Uint8Array>): AsyncGenerator<ChangeEvent | EndEvent, void, undefined> {
    const decoder = new TextDecoder()
    const parser = createParser({
      // Before its event, and of a heartbeat without one.
      onId: (id) => {
        this.lastEventId = id
      },
      onEvent: ({ event, data }) => {
        this.#events.push({ type: event, id: this.lastEventId, ...JSON.parse(data) })
      },
      onRetry: (ms) => {
        this.retryMs = ms
      },
    })
    const reader = body.getReader()
    try {
      for (;;) {
        const { done, value } = await reader.read().catch((error: unknown) => {
          throw new ConnectionLost('The connection broke off.', { cause: error })
        })
        if (done) return
        parser.feed(decoder.decode(value, { stream: true }))
        const events = this.#events
        this.#events = []
        yield* events
      }
    } finally {
      await reader.cancel().catch(() => {})
    }
  }
}
