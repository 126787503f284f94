import { createParser } from 'eventsource-parser'
import type { ChangeEvent } from './change-types.ts'
import { ConnectionLost } from './connection-lost.ts'

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
