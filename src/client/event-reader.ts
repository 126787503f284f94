import type { ChangeEvent } from './change-types.ts'
import { ConnectionLost } from './connection-lost.ts'

type EndEvent = { type: 'end'; code: string; detail: string }

/** Reads Server-Sent Events from a body. */
export class EventReader {
  /** Of the last event that was read. */
  lastEventId: string | undefined
  /** Milliseconds to wait before the next connection, if the server has said that. */
  retryMs: number | undefined
  #type = ''
  #data = ''
  #rest = ''

  /** @throws `ConnectionLost` if the body breaks off */
  async *read(body: ReadableStream<Uint8Array>): AsyncGenerator<ChangeEvent | EndEvent, void, undefined> {
    const decoder = new TextDecoder()
    const reader = body.getReader()
    try {
      for (;;) {
        const { done, value } = await reader.read().catch((error: unknown) => {
          throw new ConnectionLost('The connection broke off.', { cause: error })
        })
        if (done) return
        const lines = (this.#rest + decoder.decode(value, { stream: true })).split('\n')
        this.#rest = lines.pop() as string
        for (const line of lines) {
          const event = this.#take(line)
          if (event !== undefined) yield event
        }
      }
    } finally {
      await reader.cancel().catch(() => {})
    }
  }

  /** @returns the event that an empty line ends */
  #take(line: string): ChangeEvent | EndEvent | undefined {
    if (line === '') return this.#dispatch()
    const colon = line.indexOf(':')
    const value = line.slice(colon + 1).replace(/^ /, '')
    switch (line.slice(0, colon)) {
      case 'event':
        this.#type = value
        break
      case 'data':
        this.#data = value
        break
      case 'id':
        this.lastEventId = value
        break
      case 'retry':
        this.retryMs = Number(value)
    }
    return undefined
  }

  #dispatch(): ChangeEvent | EndEvent | undefined {
    const data = this.#data
    const type = this.#type
    this.#data = ''
    this.#type = ''
    return data === '' ? undefined : { type, id: this.lastEventId, ...JSON.parse(data) }
  }
}
