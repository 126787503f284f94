import type {
  CallOptions,
  GetOptions,
  ListOptions,
  ObjectBody,
  ObjectContent,
  ObjectEntry,
  ObjectStore,
  SweepOptions,
  TransferOptions,
} from '../../../src/backup/object-store/object-store.ts'
import { CellError, type CellErrorCode } from '../../../src/errors.ts'

export type Call = 'put' | 'get' | 'head' | 'list' | 'delete' | 'sweepUploads'

/** Whether an object says which node uses the prefix, and nothing of backups. */
export function ofFence(key: string): boolean {
  return /^(fence|holder)\//.test(key)
}

/** A node renews its record on a timer, between any two calls that a test expects. */
function isRenewal(key: string): boolean {
  return key.startsWith('holder/')
}

/** Passes every call on; what tests do to an object store is a subclass of it. */
export class PassingStore implements ObjectStore {
  readonly inner: ObjectStore

  constructor(inner: ObjectStore) {
    this.inner = inner
  }

  get url(): string {
    return this.inner.url
  }

  /** Called before each call is passed on; may throw or wait. */
  protected async before(_call: Call, _key: string, _signal?: AbortSignal): Promise<void> {}

  async put(key: string, body: ObjectBody, options?: TransferOptions): Promise<void> {
    await this.before('put', key, options?.signal)
    await this.inner.put(key, body, options)
  }

  async get(key: string, options?: GetOptions): Promise<ObjectContent | undefined> {
    await this.before('get', key, options?.signal)
    return this.inner.get(key, options)
  }

  async head(key: string, options?: CallOptions): Promise<{ size: number } | undefined> {
    await this.before('head', key, options?.signal)
    return this.inner.head(key, options)
  }

  async *list(prefix: string, options?: ListOptions): AsyncGenerator<ObjectEntry> {
    await this.before('list', prefix, options?.signal)
    yield* this.inner.list(prefix, options)
  }

  async delete(key: string, options?: CallOptions): Promise<void> {
    await this.before('delete', key, options?.signal)
    await this.inner.delete(key, options)
  }

  async sweepUploads(prefix: string, olderThanMs: number, options?: SweepOptions): Promise<number> {
    await this.before('sweepUploads', prefix, options?.signal)
    return this.inner.sweepUploads(prefix, olderThanMs, options)
  }

  /** The objects outlive each store that uses them: a test goes on with them. */
  async close(): Promise<void> {}
}

/** Remembers every call, those of the fence apart, and how many bytes were put. */
export class RecordingStore extends PassingStore {
  readonly calls: { call: Call; key: string }[] = []
  readonly fenceCalls: { call: Call; key: string }[] = []
  readonly putBytes = new Map<string, number>()

  count(call?: Call): number {
    return this.calls.filter((each) => call === undefined || each.call === call).length
  }

  forget(): void {
    this.calls.length = 0
    this.fenceCalls.length = 0
  }

  protected override async before(call: Call, key: string): Promise<void> {
    const calls = ofFence(key) ? this.fenceCalls : this.calls
    calls.push({ call, key })
  }

  override async put(key: string, body: ObjectBody, options?: TransferOptions): Promise<void> {
    this.putBytes.set(key, body.size)
    await super.put(key, body, options)
  }
}

/** Fails calls on demand; renewals of the node's record only if all calls fail from here on. */
export class FailingStore extends PassingStore {
  /** Calls so far, of those that `counts` lets count. */
  calls = 0
  /** The number of the call that fails, from 1; 0 fails none. */
  failAt = 0
  /** Every call after that one fails as well. */
  forGood = false
  /** A put that fails has stored its object all the same: the answer was lost. */
  afterTheFact = false
  counts: (call: Call, key: string) => boolean = () => true
  error = () => new CellError('object_store_unavailable', 'The object store is down (injected).')

  /** Fails the n-th call from here on, of those that `counts` lets count. */
  failFromHere(n: number, counts: (call: Call, key: string) => boolean = () => true): void {
    this.calls = 0
    this.failAt = n
    this.counts = counts
  }

  protected override async before(call: Call, key: string): Promise<void> {
    if (!this.#fails(call, key)) return
    throw this.error()
  }

  override async put(key: string, body: ObjectBody, options?: TransferOptions): Promise<void> {
    if (!this.#fails('put', key)) return this.inner.put(key, body, options)
    if (this.afterTheFact) await this.inner.put(key, body, options)
    throw this.error()
  }

  #fails(call: Call, key: string): boolean {
    if ((isRenewal(key) && !this.forGood) || !this.counts(call, key)) return false
    this.calls++
    return this.failAt > 0 && (this.calls === this.failAt || (this.forGood && this.calls > this.failAt))
  }
}

/** Holds calls back until they are let through. */
export class GatedStore extends PassingStore {
  /** Which calls wait; renewals of the node's record do not. */
  gates: (call: Call, key: string) => boolean = () => false
  /** What calls that don't wait fail with. */
  failure: CellErrorCode | undefined
  #holdsAll = false
  #waiting: (() => void)[] = []
  #arrivals: (() => void)[] = []

  /** Resolves once a call waits at the gate. */
  async arrival(): Promise<void> {
    if (this.#waiting.length > 0) return
    await new Promise<void>((resolve) => this.#arrivals.push(resolve))
  }

  get waiting(): number {
    return this.#waiting.length
  }

  /** Every call waits from here on. */
  hold(): void {
    this.#holdsAll = true
  }

  /** Lets everything through that waits, and all that comes. */
  open(): void {
    this.failure = undefined
    this.gates = () => false
    this.#holdsAll = false
    for (const go of this.#waiting.splice(0)) go()
  }

  /** Waits no longer than its caller does, as the contract of an object store has it. */
  protected override async before(call: Call, key: string, signal?: AbortSignal): Promise<void> {
    if (!this.#holdsAll && (isRenewal(key) || !this.gates(call, key))) {
      if (this.failure !== undefined) throw new CellError(this.failure, 'The object store fails (injected).')
      return
    }
    await new Promise<void>((resolve, reject) => {
      this.#waiting.push(resolve)
      for (const arrived of this.#arrivals.splice(0)) arrived()
      signal?.addEventListener('abort', () => {
        this.#waiting = this.#waiting.filter((each) => each !== resolve)
        reject(new CellError('object_store_unavailable', 'The call was cancelled.', { cause: signal.reason }))
      })
    })
  }
}

/** Shows other bytes than the ones that are stored. */
export class CorruptingStore extends PassingStore {
  /** What is read at a key in place of what is stored there; undefined: nothing is there. Keys not named are as they are. */
  readonly replaced = new Map<string, Buffer | undefined>()

  override async get(key: string, options: GetOptions = {}): Promise<ObjectContent | undefined> {
    if (!this.replaced.has(key)) return super.get(key, options)
    const bytes = this.replaced.get(key)
    if (bytes === undefined) return undefined
    const { range } = options
    const part =
      range === undefined
        ? bytes
        : 'last' in range
          ? bytes.subarray(Math.max(bytes.length - range.last, 0))
          : bytes.subarray(range.offset, range.offset + range.length)
    return { size: part.length, body: chunksOf(part) }
  }

  override async head(key: string, options?: CallOptions): Promise<{ size: number } | undefined> {
    if (!this.replaced.has(key)) return super.head(key, options)
    const bytes = this.replaced.get(key)
    return bytes && { size: bytes.length }
  }

  override async *list(prefix: string, options?: ListOptions): AsyncGenerator<ObjectEntry> {
    for await (const entry of super.list(prefix, options)) {
      if (!this.replaced.has(entry.key)) yield entry
      const bytes = this.replaced.get(entry.key)
      if (bytes !== undefined) yield { key: entry.key, size: bytes.length }
    }
  }
}

/** A bucket whose listing does not show some objects yet. */
export class LaggingStore extends PassingStore {
  #hidden = new Set<string>()

  /** These are not listed from now on, all others are. */
  hide(keys: Iterable<string>): void {
    this.#hidden = new Set(keys)
  }

  override async *list(prefix: string, options?: ListOptions): AsyncGenerator<ObjectEntry> {
    for await (const entry of super.list(prefix, options)) if (!this.#hidden.has(entry.key)) yield entry
  }
}

/** A bucket whose listings stay as they were, whatever is stored or removed. */
export class FrozenListing extends PassingStore {
  #shown: ObjectEntry[] | undefined

  async freeze(): Promise<void> {
    const shown: ObjectEntry[] = []
    for await (const entry of this.inner.list('')) shown.push(entry)
    this.#shown = shown
  }

  thaw(): void {
    this.#shown = undefined
  }

  override async *list(prefix: string, options: ListOptions = {}): AsyncGenerator<ObjectEntry> {
    if (this.#shown === undefined) return yield* super.list(prefix, options)
    const { after = '' } = options
    yield* this.#shown.filter(({ key }) => key.startsWith(prefix) && key > after)
  }
}

/** In chunks of odd sizes, as a network delivers them. */
async function* chunksOf(bytes: Buffer): AsyncGenerator<Uint8Array> {
  for (let at = 0; at < bytes.length; at += 7_001) yield bytes.subarray(at, at + 7_001)
}

/** All bytes of an object. */
export async function readObject(store: ObjectStore, key: string): Promise<Buffer> {
  const content = await store.get(key)
  if (content === undefined) throw new Error(`There is no object ${key}.`)
  const chunks: Uint8Array[] = []
  for await (const chunk of content.body) chunks.push(chunk)
  return Buffer.concat(chunks)
}
