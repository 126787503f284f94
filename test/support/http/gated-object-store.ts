import type {
  GetOptions,
  ListOptions,
  ObjectBody,
  ObjectStore,
  TransferOptions,
} from '../../../src/backup/object-store/object-store.ts'
import { CellError, type CellErrorCode } from '../../../src/errors.ts'

/** An object store that a test can make fail, or hold up until it says. */
export class GatedObjectStore implements ObjectStore {
  /** Every call from here on fails so. */
  failure: CellErrorCode | undefined
  readonly #inner: ObjectStore
  #gate: Promise<void> = Promise.resolve()
  #open: () => void = () => {}

  constructor(inner: ObjectStore) {
    this.#inner = inner
  }

  get url(): string {
    return this.#inner.url
  }

  /** Calls from here on wait for {@link release}. */
  hold(): void {
    this.#gate = new Promise((resolve) => {
      this.#open = resolve
    })
  }

  release(): void {
    this.failure = undefined
    this.#open()
    this.#gate = Promise.resolve()
  }

  async put(key: string, body: ObjectBody, options?: TransferOptions): Promise<void> {
    await this.#pass()
    await this.#inner.put(key, body, options)
  }

  async get(key: string, options?: GetOptions) {
    await this.#pass()
    return await this.#inner.get(key, options)
  }

  async head(key: string, options?: GetOptions) {
    await this.#pass()
    return await this.#inner.head(key, options)
  }

  async *list(prefix: string, options?: ListOptions) {
    await this.#pass()
    yield* this.#inner.list(prefix, options)
  }

  async delete(key: string): Promise<void> {
    await this.#pass()
    await this.#inner.delete(key)
  }

  async sweepUploads(prefix: string, olderThanMs: number): Promise<number> {
    await this.#pass()
    return await this.#inner.sweepUploads(prefix, olderThanMs)
  }

  async close(): Promise<void> {
    await this.#inner.close()
  }

  async #pass(): Promise<void> {
    await this.#gate
    if (this.failure !== undefined)
      throw new CellError(this.failure, 'The test’s object store fails on purpose.')
  }
}
