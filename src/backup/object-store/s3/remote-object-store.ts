import type { Readable } from 'node:stream'
import type { Clock } from '../../../base/clock.ts'
import { CellError } from '../../../errors.ts'
import { checkRange, resolveRange } from '../byte-range.ts'
import { CallDeadline, type Patience } from '../call-deadline.ts'
import { checkKeyPrefix, checkObjectKey, compareKeys, isObjectKey } from '../object-key-rules.ts'
import type {
  CallOptions,
  GetOptions,
  ListOptions,
  ObjectBody,
  ObjectContent,
  ObjectEntry,
  ObjectStore,
  TransferOptions,
} from '../object-store.ts'
import { CreateOnlyPuts, PROBE_FOLDER, type PutRequests } from './create-only-puts.ts'
import { receiveBody } from './received-body.ts'

/** Single requests to a store over a network. Keys are the store's; each rejects with a `CellError`. */
export interface RemoteRequests extends PutRequests {
  /**
   * Bytes from `offset`, at most `length` where that is given and at least one.
   *
   * @returns `beyond` where the object has no byte at `offset`.
   */
  read(
    key: string,
    offset: number,
    length: number | undefined,
    call: CallDeadline,
  ): Promise<Received | 'absent' | 'beyond'>
  objects(
    prefix: string,
    after: string,
    next: string | undefined,
    call: CallDeadline,
  ): Promise<Page<RemoteObject>>
  uploads(prefix: string, next: string | undefined, call: CallDeadline): Promise<Page<RemoteUpload>>
  /** @returns false if there is no such upload. */
  endUpload(key: string, id: string, call: CallDeadline): Promise<boolean>
  /** Lets go of connections. */
  destroy(): void
}

export interface Received {
  /** Bytes that `stream` is to hold. */
  length: number
  stream: Readable
  /** Changes when the object does. */
  etag: string | undefined
}

export interface RemoteObject extends ObjectEntry {
  /** Milliseconds since the epoch, by the store's clock. */
  modifiedMs: number
}

export interface RemoteUpload {
  key: string
  id: string
  /** Milliseconds since the epoch, by the store's clock. */
  begunMs: number
}

export interface Page<T> {
  items: T[]
  /** What to ask for the next page with; undefined on the last. */
  next: string | undefined
}

export interface RemotePatience extends Patience {
  /** Longest wait for the next bytes of a body, in milliseconds. */
  idleMs: number
  /** How often a body that breaks off is asked for, and a request is sent, before it counts as failed. */
  attempts: number
}

/** Longest time to clear up after a failed put, in milliseconds: a shutdown may be waiting for it. */
const CLEAN_UP_MS = 10_000

/** The contract of an object store, kept by means of requests that may fail, be repeated or be answered wrongly. */
export class RemoteObjectStore implements ObjectStore {
  readonly url: string
  readonly #requests: RemoteRequests
  readonly #patience: RemotePatience
  readonly #clock: Clock
  readonly #puts: CreateOnlyPuts
  readonly #closed = new AbortController()

  constructor(url: string, requests: RemoteRequests, patience: RemotePatience, clock: Clock) {
    this.url = url
    this.#requests = requests
    this.#patience = patience
    this.#clock = clock
    const deadlineMs = Math.min(patience.deadlineMs, CLEAN_UP_MS)
    this.#puts = new CreateOnlyPuts(requests, (kind) =>
      // Clearing up is neither its caller's nor `close`'s to take away.
      kind === 'clean-up' ? new CallDeadline(clock, { ...patience, deadlineMs }) : this.#call(),
    )
  }

  /** Whether the endpoint honours conditional writes; undefined until the first put has found out. */
  get conditionalWrites(): boolean | undefined {
    return this.#puts.conditionalWrites
  }

  async put(key: string, body: ObjectBody, options: TransferOptions = {}): Promise<void> {
    checkObjectKey(key)
    using call = this.#call(options.signal)
    call.allow(body.size)
    await this.#puts.put(key, body, options, call)
  }

  async get(key: string, { range, signal }: GetOptions = {}): Promise<ObjectContent | undefined> {
    checkObjectKey(key)
    checkRange(range)
    const call = this.#call(signal)
    try {
      const content = await this.#open(key, range, call)
      if (content === undefined || content.size === 0) call[Symbol.dispose]()
      return content
    } catch (error) {
      call[Symbol.dispose]()
      throw error
    }
  }

  async head(key: string, { signal }: CallOptions = {}): Promise<{ size: number } | undefined> {
    checkObjectKey(key)
    using call = this.#call(signal)
    const found = await this.#requests.find(key, call)
    return found === undefined ? undefined : { size: found.size }
  }

  async *list(prefix: string, { after = '', signal }: ListOptions = {}): AsyncGenerator<ObjectEntry> {
    checkKeyPrefix(prefix)
    let last = after
    for await (const page of this.#objectPages(prefix, after, signal)) {
      // Endpoints exist that begin too early, or sort by something else than bytes within a page.
      const entries = page.filter(({ key }) => isObjectKey(key) && compareKeys(key, after) > 0)
      for (const { key, size } of entries.sort((a, b) => compareKeys(a.key, b.key))) {
        if (compareKeys(key, last) <= 0) throw wrongAnswer('lists keys out of order')
        last = key
        yield { key, size }
      }
    }
  }

  async delete(key: string, { signal }: CallOptions = {}): Promise<void> {
    checkObjectKey(key)
    using call = this.#call(signal)
    await this.#requests.remove(key, call)
  }

  async sweepUploads(prefix: string, olderThanMs: number, { signal }: CallOptions = {}): Promise<number> {
    checkKeyPrefix(prefix)
    let ended = 0
    for await (const page of this.#pages(
      (next, call) => this.#requests.uploads(prefix, next, call),
      signal,
    )) {
      for (const { key, id } of page.filter(({ begunMs }) => begunMs < olderThanMs)) {
        using call = this.#call(signal)
        if (await this.#requests.endUpload(key, id, call)) ended++
      }
    }
    // Probes of a process that ended before it had removed them.
    for await (const page of this.#objectPages(PROBE_FOLDER, '', signal)) {
      for (const { key } of page.filter(({ modifiedMs }) => modifiedMs < olderThanMs)) {
        using call = this.#call(signal)
        await this.#requests.remove(key, call)
      }
    }
    return ended
  }

  async close(): Promise<void> {
    this.#closed.abort(new CellError('store_closed', 'The object store is closed.'))
    // Puts that this has ended still remove what they began.
    await this.#puts.idle()
    this.#requests.destroy()
  }

  #call(signal?: AbortSignal): CallDeadline {
    return new CallDeadline(this.#clock, this.#patience, signal, this.#closed.signal)
  }

  async #open(
    key: string,
    range: GetOptions['range'],
    call: CallDeadline,
  ): Promise<ObjectContent | undefined> {
    const nothing = { size: 0, body: noBytes() }
    let part = range
    // No request asks for no bytes; and `last` is made an offset, since s3rver answers it with the object's beginning.
    if (part !== undefined && ('last' in part || part.length === 0)) {
      const found = await this.#requests.find(key, call)
      if (found === undefined) return undefined
      part = resolveRange(part, found.size)
      if (part.length === 0) return nothing
    }
    const { offset, length } = part ?? { offset: 0 }
    const first = await this.#requests.read(key, offset, length, call)
    if (first === 'absent') return undefined
    if (first === 'beyond') return nothing
    const size = Math.min(length ?? first.length, first.length)
    call.allow(size)
    return { size, body: this.#receive(key, offset, size, first, call) }
  }

  #receive(
    key: string,
    offset: number,
    length: number,
    first: Received,
    call: CallDeadline,
  ): AsyncIterable<Uint8Array> {
    const resume = async (delivered: number) => {
      const rest = await this.#requests.read(key, offset + delivered, length - delivered, call)
      if (typeof rest === 'string') throw wrongAnswer('lost an object while it was read')
      if (rest.etag === first.etag) return rest.stream
      rest.stream.on('error', () => {}).destroy()
      throw wrongAnswer('changed an object while it was read')
    }
    const { idleMs, attempts } = this.#patience
    return receiveBody({
      length,
      first: first.stream,
      resume,
      resumesMax: attempts - 1,
      idleMs,
      clock: this.#clock,
      call,
    })
  }

  #objectPages(
    prefix: string,
    after: string,
    signal: AbortSignal | undefined,
  ): AsyncGenerator<RemoteObject[]> {
    return this.#pages((next, call) => this.#requests.objects(prefix, after, next, call), signal)
  }

  /** Page by page, each within a deadline of its own: who reads the pages may take as long as they like. */
  async *#pages<T>(
    ask: (next: string | undefined, call: CallDeadline) => Promise<Page<T>>,
    signal: AbortSignal | undefined,
  ): AsyncGenerator<T[]> {
    let next: string | undefined
    do {
      using call = this.#call(signal)
      const page = await ask(next, call)
      if (page.next !== undefined && page.next === next)
        throw wrongAnswer('gives the same page of a list for ever')
      next = page.next
      call[Symbol.dispose]()
      yield page.items
    } while (next !== undefined)
  }
}

async function* noBytes(): AsyncGenerator<Uint8Array> {}

function wrongAnswer(what: string): CellError {
  return new CellError('object_store_error', `The object store ${what}.`)
}
