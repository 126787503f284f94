import type { Clock, Timer } from '../base/clock.ts'
import type { Catalog } from '../catalog/catalog.ts'
import type { Statement } from '../engine/sqlite.ts'
import { isCellError } from '../errors.ts'

const WRITTEN_EVERY_MS = 60_000

/** When API keys were last used: exact to a minute, and written down once a minute. */
export class KeyUses {
  readonly #catalog: Catalog
  readonly #clock: Clock
  readonly #set: Statement
  /** Uses that are not in the catalog yet, by key id. */
  readonly #unwritten = new Map<string, number>()
  #timer: Timer | undefined

  constructor(catalog: Catalog, clock: Clock) {
    this.#catalog = catalog
    this.#clock = clock
    this.#set = catalog.prepare('UPDATE api_keys SET last_used_at = ? WHERE id = ?')
  }

  note(keyId: string): void {
    if (this.#unwritten.has(keyId)) return
    this.#unwritten.set(keyId, this.#clock.now())
    this.#setTimer()
  }

  /** @param written what the catalog says */
  last(keyId: string, written: number | null): number | null {
    return this.#unwritten.get(keyId) ?? written
  }

  /** Never throws: it keeps what it cannot write, and tries again. */
  flush(): void {
    this.#timer?.cancel()
    this.#timer = undefined
    if (this.#unwritten.size === 0) return
    try {
      this.#catalog.note(() => {
        for (const [id, at] of this.#unwritten) this.#set.run(at, id)
      })
      this.#unwritten.clear()
    } catch (error) {
      if (!isCellError(error, 'store_closed')) this.#setTimer()
    }
  }

  #setTimer(): void {
    this.#timer ??= this.#clock.setTimer(() => this.flush(), WRITTEN_EVERY_MS)
  }
}
