import { isCellError } from '../../errors.ts'
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
} from './object-store.ts'
import type { EndedCall, ObjectStoreCall } from './object-store-calls.ts'

/** Passes every call on to an object store, and tells how it ended. A call that its caller gave up counts for nothing. */
export class ObservedObjectStore implements ObjectStore {
  readonly #inner: ObjectStore
  readonly #note: (ended: EndedCall) => void

  constructor(inner: ObjectStore, note: (ended: EndedCall) => void) {
    this.#inner = inner
    this.#note = note
  }

  get url(): string {
    return this.#inner.url
  }

  put(key: string, body: ObjectBody, options?: TransferOptions): Promise<void> {
    return this.#observe('put', options, () => this.#inner.put(key, body, options))
  }

  get(key: string, options?: GetOptions): Promise<ObjectContent | undefined> {
    return this.#observe('get', options, () => this.#inner.get(key, options))
  }

  head(key: string, options?: CallOptions): Promise<{ size: number } | undefined> {
    return this.#observe('head', options, () => this.#inner.head(key, options))
  }

  async *list(prefix: string, options?: ListOptions): AsyncGenerator<ObjectEntry> {
    try {
      yield* this.#inner.list(prefix, options)
      this.#note({ call: 'list' })
    } catch (error) {
      this.#failed('list', options, error)
      throw error
    }
  }

  delete(key: string, options?: CallOptions): Promise<void> {
    return this.#observe('delete', options, () => this.#inner.delete(key, options))
  }

  sweepUploads(prefix: string, olderThanMs: number, options?: SweepOptions): Promise<number> {
    return this.#observe('sweep', options, () => this.#inner.sweepUploads(prefix, olderThanMs, options))
  }

  close(): Promise<void> {
    return this.#inner.close()
  }

  async #observe<T>(
    call: ObjectStoreCall,
    options: CallOptions | undefined,
    run: () => Promise<T>,
  ): Promise<T> {
    try {
      const value = await run()
      this.#note({ call })
      return value
    } catch (error) {
      this.#failed(call, options, error)
      throw error
    }
  }

  #failed(call: ObjectStoreCall, options: CallOptions | undefined, error: unknown): void {
    if (options?.signal?.aborted === true || isCellError(error, 'store_closed')) return
    // The answer to a question: somebody has stored the object before.
    if (isCellError(error, 'object_exists')) this.#note({ call })
    else {
      const { code, message } = isCellError(error) ? error : { code: 'internal' as const, message: undefined }
      this.#note({ call, code, why: message })
    }
  }
}
