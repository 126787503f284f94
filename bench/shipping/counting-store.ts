import type { ObjectBody, TransferOptions } from '../../src/backup/object-store/object-store.ts'
import { type Call, PassingStore } from '../../test/support/backup/object-store-decorators.ts'

export interface Counted {
  requests: number
  /** Of the bodies that were put. */
  bytes: number
}

/** Counts requests and bytes, by the first part of the key and the kind of request: `log put`, `fence head`. */
export class CountingStore extends PassingStore {
  readonly #counts = new Map<string, Counted>()

  /** What was counted since the last call. */
  take(): Map<string, Counted> {
    const taken = new Map([...this.#counts].sort(([a], [b]) => (a < b ? -1 : 1)))
    this.#counts.clear()
    return taken
  }

  protected override async before(call: Call, key: string): Promise<void> {
    this.#at(call, key).requests++
  }

  override async put(key: string, body: ObjectBody, options?: TransferOptions): Promise<void> {
    this.#at('put', key).bytes += body.size
    await super.put(key, body, options)
  }

  #at(call: Call, key: string): Counted {
    const name = `${key.split('/')[0]} ${call}`
    const counted = this.#counts.get(name) ?? { requests: 0, bytes: 0 }
    this.#counts.set(name, counted)
    return counted
  }
}

export function total(counts: Iterable<Counted>): Counted {
  const sum = { requests: 0, bytes: 0 }
  for (const { requests, bytes } of counts) {
    sum.requests += requests
    sum.bytes += bytes
  }
  return sum
}
