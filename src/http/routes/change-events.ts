import type { Clock, Timer } from '../../base/clock.ts'
import type { CellError } from '../../errors.ts'
import type { OperationPermit } from '../../service/cell-service.ts'
import type { CellChange } from '../../store/watch/cell-change.ts'
import type { ChangeStream } from '../../store/watch/change-stream.ts'
import type { BodyStream } from '../core/http-message.ts'

/** A connection that nothing came over for longer is taken for dead by what stands between. */
export const HEARTBEAT_MS = 15_000
/** Characters of events that are sent together. */
const CHUNK_LENGTH = 16_384
/** Milliseconds after which a client that lost its connection should come back. */
const RETRY_MS = 1_000

export interface ChangeEventsParts {
  changes: ChangeStream
  clock: Clock
  /** Asked before anything is sent: a key may have expired. */
  permit?: OperationPermit | undefined
  /** What its reader may see of an error. */
  show(error: unknown): CellError
  /** Called once when nothing more is sent. */
  closed(): void
}

/** The changes of a cell as Server-Sent Events. */
export class ChangeEvents implements BodyStream {
  readonly #parts: ChangeEventsParts
  readonly #over = new AbortController()
  #error: unknown
  #isClosed = false

  constructor(parts: ChangeEventsParts) {
    this.#parts = parts
    // Not for its reader, who is not reading.
    parts.changes.onTooSlow = () => this.close()
  }

  get over(): AbortSignal {
    return this.#over.signal
  }

  /** Ends it with an event that says why. */
  end(error: unknown): void {
    this.#error ??= error
    void this.#parts.changes.return()
    this.#over.abort()
  }

  /** Ends it: nobody reads it any more. */
  close(): void {
    if (this.#isClosed) return
    this.#isClosed = true
    void this.#parts.changes.return()
    this.#over.abort()
    this.#parts.closed()
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<string, void, undefined> {
    const { changes, permit, show } = this.#parts
    try {
      yield `retry: ${RETRY_MS}\n\n`
      let next = changes.next()
      for (;;) {
        const result = await this.#orHeartbeat(next)
        permit?.check()
        if (result === 'heartbeat') yield heartbeat(changes.lastEventId)
        else if (result.done) break
        else {
          yield this.#chunk(result.value)
          next = changes.next()
        }
      }
      if (this.#error !== undefined) yield endEvent(show(this.#error))
    } catch (error) {
      yield endEvent(show(error))
    } finally {
      this.close()
    }
  }

  /** A change, and those that have come with it. */
  #chunk(first: CellChange): string {
    let text = eventOf(first)
    while (text.length < CHUNK_LENGTH) {
      const change = this.#parts.changes.nextNow()
      if (change === undefined) break
      text += eventOf(change)
    }
    return text
  }

  async #orHeartbeat<T>(next: Promise<T>): Promise<T | 'heartbeat'> {
    const { clock, permit } = this.#parts
    // At the end of the key's time somebody has to look, also if nothing is to be sent.
    const leftMs = (permit?.endsAt ?? Number.POSITIVE_INFINITY) - clock.now()
    let timer: Timer | undefined
    const beat = new Promise<'heartbeat'>((resolve) => {
      timer = clock.setTimer(() => resolve('heartbeat'), Math.min(HEARTBEAT_MS, leftMs))
    })
    try {
      return await Promise.race([next, beat])
    } finally {
      timer?.cancel()
    }
  }
}

function eventOf(change: CellChange): string {
  const data =
    change.type === 'reset' ? { reason: change.reason } : { keys: change.keys, tables: change.tables }
  return `event: ${change.type}\nid: ${change.id}\ndata: ${JSON.stringify(data)}\n\n`
}

function endEvent({ code, message }: CellError): string {
  return `event: end\ndata: ${JSON.stringify({ code, detail: message })}\n\n`
}

/** No event, but clients keep the id: they come back after commits that were not for them. */
function heartbeat(id: string | undefined): string {
  return id === undefined ? ':\n\n' : `:\nid: ${id}\n\n`
}
