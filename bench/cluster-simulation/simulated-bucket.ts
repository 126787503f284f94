import {
  type GetOptions,
  type ListOptions,
  type ObjectBody,
  type ObjectContent,
  type ObjectEntry,
  type ObjectStore,
  objectExists,
  resolveRange,
} from '../../src/backup/object-store/object-store.ts'
import { type Clock, delay } from '../../src/base/clock.ts'
import type { Counts } from './counts.ts'

/** Keys in one answer to a LIST, as S3's. */
const PAGE = 1_000

/** What all machines see of the bucket. */
export class SimulatedObjects {
  readonly objects = new Map<string, Buffer>()
  readonly #keys: string[] = []
  /** Told of each object that was stored. */
  stored: (key: string) => void = () => {}

  add(key: string, bytes: Buffer): void {
    this.objects.set(key, bytes)
    this.#keys.splice(this.#from(key), 0, key)
    this.stored(key)
  }

  remove(key: string): void {
    if (this.objects.delete(key)) this.#keys.splice(this.#from(key), 1)
  }

  /** The next ones of a prefix, in their order. */
  page(prefix: string, after: string): string[] {
    const page: string[] = []
    const begin = after > prefix ? after : prefix
    for (let at = this.#from(begin); at < this.#keys.length && page.length < PAGE; at++) {
      const key = this.#keys[at] as string
      if (!key.startsWith(prefix)) break
      if (key > after) page.push(key)
    }
    return page
  }

  /** Where a key is, or would be. */
  #from(key: string): number {
    let [low, high] = [0, this.#keys.length]
    while (low < high) {
      const middle = (low + high) >> 1
      if ((this.#keys[middle] as string) < key) low = middle + 1
      else high = middle
    }
    return low
  }
}

/** The bucket as one machine reaches it: each request takes its time, and is counted. */
export class SimulatedBucket implements ObjectStore {
  readonly url = 's3://simulated'
  readonly #shared: SimulatedObjects
  readonly #clock: Clock
  readonly #latencyMs: number
  readonly #requests: Counts

  constructor(shared: SimulatedObjects, clock: Clock, latencyMs: number, requests: Counts) {
    this.#shared = shared
    this.#clock = clock
    this.#latencyMs = latencyMs
    this.#requests = requests
  }

  async put(key: string, body: ObjectBody): Promise<void> {
    await this.#half('PUT', key)
    if (this.#shared.objects.has(key)) throw objectExists()
    this.#shared.add(key, await body.read(0, body.size))
    await this.#half()
  }

  async get(key: string, { range }: GetOptions = {}): Promise<ObjectContent | undefined> {
    await this.#half('GET', key)
    const bytes = this.#shared.objects.get(key)
    await this.#half()
    if (bytes === undefined) return undefined
    const { offset, length } = resolveRange(range, bytes.length)
    const part = bytes.subarray(offset, offset + length)
    return {
      size: length,
      body: (async function* () {
        yield part
      })(),
    }
  }

  async head(key: string): Promise<{ size: number } | undefined> {
    await this.#half('HEAD', key)
    const bytes = this.#shared.objects.get(key)
    await this.#half()
    return bytes && { size: bytes.length }
  }

  async *list(prefix: string, { after = '' }: ListOptions = {}): AsyncGenerator<ObjectEntry> {
    for (let last = after; ; ) {
      await this.#half('LIST', prefix)
      const page = this.#shared.page(prefix, last)
      await this.#half()
      for (const key of page) yield { key, size: this.#shared.objects.get(key)?.length ?? 0 }
      if (page.length < PAGE) return
      last = page.at(-1) as string
    }
  }

  async delete(key: string): Promise<void> {
    await this.#half('DELETE', key)
    this.#shared.remove(key)
    await this.#half()
  }

  async sweepUploads(): Promise<number> {
    return 0
  }

  async close(): Promise<void> {}

  async #half(kind?: string, key = ''): Promise<void> {
    // `nodes/<id>/fence/…` and `assign/…` by what they are.
    if (kind !== undefined) this.#requests.add(`${kind} ${key.replace(/^nodes\/[^/]+\//, '').split('/')[0]}`)
    await delay(this.#clock, this.#latencyMs / 2)
  }
}

/** S3's list prices: PUT and LIST, GET and HEAD, in dollars for one. DELETE costs nothing. */
const [PUT_PRICE, GET_PRICE] = [0.005 / 1_000, 0.0004 / 1_000]

export function priceOf(requests: Counts): number {
  const puts = requests.sum('PUT') + requests.sum('LIST')
  return puts * PUT_PRICE + (requests.sum('GET') + requests.sum('HEAD')) * GET_PRICE
}
