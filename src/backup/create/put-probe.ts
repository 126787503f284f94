import { randomUUID } from 'node:crypto'
import { bufferBody, type CallOptions, type ObjectStore } from '../object-store/object-store.ts'
import { probeKey } from '../versions/object-keys.ts'

/**
 * After the object store has refused an object, a small one shows whether it takes any: a backup reads and compresses the
 * whole cell before its own PUT can fail.
 */
export class PutProbe {
  readonly #store: ObjectStore
  #isRefused = false

  constructor(store: ObjectStore) {
    this.#store = store
  }

  /** Call with the outcome of each PUT of a backup. */
  noted(isStored: boolean): void {
    this.#isRefused = !isStored
  }

  /** Call before a backup reads anything. @throws what the object store throws, if it still takes nothing */
  async check(options: CallOptions): Promise<void> {
    if (!this.#isRefused) return
    const key = probeKey(randomUUID())
    await this.#store.put(key, bufferBody(Buffer.from('probe\n')), options)
    this.#isRefused = false
    // One that stays is a few bytes.
    await this.#store.delete(key, options).catch(() => {})
  }
}
