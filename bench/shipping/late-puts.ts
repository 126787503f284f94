import { setTimeout as sleep } from 'node:timers/promises'
import type { ObjectStore } from '../../src/backup/object-store/object-store.ts'
import { type Call, PassingStore } from '../../test/support/backup/object-store-decorators.ts'

/** An object store each of whose PUTs takes so many milliseconds longer. */
export class LatePuts extends PassingStore {
  readonly #latencyMs: number

  constructor(inner: ObjectStore, latencyMs: number) {
    super(inner)
    this.#latencyMs = latencyMs
  }

  protected override async before(call: Call): Promise<void> {
    if (call === 'put') await sleep(this.#latencyMs)
  }
}
