import { CellError } from '../../../errors.ts'
import { CallDeadline } from '../call-deadline.ts'
import { checkKeyPrefix, checkObjectKey, compareKeys, isObjectKey } from '../object-key-rules.ts'
import {
  type CallOptions,
  checkRange,
  type GetOptions,
  type ListOptions,
  type ObjectBody,
  type ObjectContent,
  type ObjectEntry,
  type ObjectStore,
  resolveRange,
  type SweepOptions,
  type TransferOptions,
} from '../object-store.ts'
import { CreateOnlyPuts, PROBE_FOLDER } from './create-only-puts.ts'
import { receiveBody } from './received-body.ts'
import { type ListedObject, type Page, type Received, wrongAnswer } from './s3-answers.ts'
import { S3Requests } from './s3-requests.ts'
import { type S3ObjectStoreOptions, type S3Settings, s3Settings, s3Url } from './s3-settings.ts'

/** The longest time to clean up after a failed put, in milliseconds: a shutdown may be waiting for it. */
const CLEAN_UP_MS = 10_000

/**
 * An object store in a bucket of S3, or of another service that speaks S3. It keeps the contract with requests that may
 * fail, be repeated or be answered wrongly. The first request loads AWS's SDK.
 */
export class S3ObjectStore implements ObjectStore {
  readonly url: string
  readonly #settings: S3Settings
  readonly #requests: S3Requests
  readonly #puts: CreateOnlyPuts
  readonly #closed = new AbortController()

  /** @throws `invalid_setting` */
  constructor(options: S3ObjectStoreOptions) {
    const settings = s3Settings(options)
    const { clock, patience } = settings
    const cleanUp = { ...patience, deadlineMs: Math.min(patience.deadlineMs, CLEAN_UP_MS) }
    this.url = s3Url(settings)
    this.#settings = settings
    this.#requests = new S3Requests(settings)
    this.#puts = new CreateOnlyPuts(this.#requests, (purpose) =>
      // Neither the caller nor `close` ends the clean-up.
      purpose === 'clean-up' ? new CallDeadline(clock, cleanUp) : this.#call(),
    )
  }

  /** Whether the endpoint honours conditional writes; undefined until the first put has tested it. */
  get conditionalWrites(): boolean | undefined {
    return this.#puts.conditionalWrites
  }

  async put(key: string, body: ObjectBody, options: TransferOptions = {}): Promise<void> {
    checkObjectKey(key)
    using call = this.#call(options.signal)
    call.allow(body.size)
    await this.#puts.put(key, body, options, call)
  }

  async createsOnlyOnce({ signal }: CallOptions = {}): Promise<boolean> {
    using call = this.#call(signal)
    return await this.#puts.honoursConditions(call)
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
      // Some endpoints begin too early, or do not sort a page by bytes.
      const entries = page.filter(({ key }) => isObjectKey(key) && compareKeys(key, after) > 0)
      for (const { key, size } of entries.sort((a, b) => compareKeys(a.key, b.key))) {
        if (compareKeys(key, last) <= 0) throw wrongAnswer('listed keys out of order')
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

  async sweepUploads(
    prefix: string,
    olderThanMs: number,
    { signal, owns = () => true }: SweepOptions = {},
  ): Promise<number> {
    checkKeyPrefix(prefix)
    const failures: unknown[] = []
    let ended = 0
    const attempt = async (end: (call: CallDeadline) => Promise<boolean>) => {
      using call = this.#call(signal)
      try {
        if (await end(call)) ended++
      } catch (error) {
        call.signal.throwIfAborted()
        failures.push(error)
      }
    }
    const uploadPages = this.#pages((next, call) => this.#requests.uploads(prefix, next, call), signal)
    for await (const page of uploadPages) {
      for (const { key, id, begunMs } of page) {
        if (begunMs < olderThanMs && owns(key))
          await attempt((call) => this.#requests.endUpload(key, id, call))
      }
    }
    // Probes of a process that ended before it removed them.
    for await (const page of this.#objectPages(PROBE_FOLDER, '', signal)) {
      for (const { key, modifiedMs } of page) {
        if (modifiedMs < olderThanMs)
          await attempt((call) => this.#requests.remove(key, call).then(() => false))
      }
    }
    if (failures.length > 0) throw failures[0]
    return ended
  }

  async close(): Promise<void> {
    this.#closed.abort(new CellError('store_closed', 'The object store is closed.'))
    // The puts that this has ended still clean up.
    await this.#puts.idle()
    this.#requests.close()
  }

  #call(signal?: AbortSignal): CallDeadline {
    return new CallDeadline(this.#settings.clock, this.#settings.patience, signal, this.#closed.signal)
  }

  async #open(
    key: string,
    range: GetOptions['range'],
    call: CallDeadline,
  ): Promise<ObjectContent | undefined> {
    const nothing = { size: 0, body: noBytes() }
    let part = range
    // No request can ask for zero bytes. And `last` becomes an offset, since s3rver answers it with the object's beginning.
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
      if (typeof rest === 'string') throw wrongAnswer('lost an object during a read')
      if (rest.etag === first.etag) return rest.stream
      rest.stream.on('error', () => {}).destroy()
      throw wrongAnswer('changed an object during a read')
    }
    const { clock, patience } = this.#settings
    const { idleMs, attempts } = patience
    return receiveBody({ length, first: first.stream, resume, resumesMax: attempts - 1, idleMs, clock, call })
  }

  #objectPages(
    prefix: string,
    after: string,
    signal: AbortSignal | undefined,
  ): AsyncGenerator<ListedObject[]> {
    return this.#pages((next, call) => this.#requests.objects(prefix, after, next, call), signal)
  }

  /** Asks for page after page. Each has its own deadline, so that the reader of the pages may take any time. */
  async *#pages<T>(
    ask: (next: string | undefined, call: CallDeadline) => Promise<Page<T>>,
    signal: AbortSignal | undefined,
  ): AsyncGenerator<T[]> {
    let next: string | undefined
    do {
      using call = this.#call(signal)
      const page = await ask(next, call)
      if (page.next !== undefined && page.next === next) {
        throw wrongAnswer('repeats the same page of a list without end')
      }
      next = page.next
      call[Symbol.dispose]()
      yield page.items
    } while (next !== undefined)
  }
}

async function* noBytes(): AsyncGenerator<Uint8Array> {}
