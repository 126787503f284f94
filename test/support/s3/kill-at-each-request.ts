import type { FaultProxy, RequestMoment } from './fault-proxy.ts'

/**
 * Kills a process at one request after the other: each time an operation runs, at the next one, before the bucket has carried it
 * out and then after that. Once an operation has no more requests, it begins with the first again.
 */
export class KillAtEachRequest {
  /** How often something was killed at which request. */
  readonly #kills = new Map<number, number>()
  readonly #proxy: FaultProxy
  readonly #last: number
  #number: number
  #when: RequestMoment = 'before'
  #isKilled = false

  /** @param last of an operation without end, such as shipping */
  constructor(proxy: FaultProxy, { first = 1, last = Number.POSITIVE_INFINITY } = {}) {
    this.#proxy = proxy
    this.#number = first
    this.#last = last
  }

  get kills(): number {
    return [...this.#kills.values()].reduce((sum, kills) => sum + kills, 0)
  }

  get isKilled(): boolean {
    return this.#isKilled
  }

  /**
   * An operation begins: its requests count from now on.
   *
   * @param kill what makes them; returns false if it does not run yet: then the next request will do
   */
  arm(kill: () => boolean): void {
    this.#isKilled = false
    this.#proxy.requests = 0
    this.#proxy.onRequest = (number, when) => {
      if (this.#isKilled || number < this.#number || when !== this.#when || !kill()) return false
      this.#isKilled = true
      this.#kills.set(number, (this.#kills.get(number) ?? 0) + 1)
      return true
    }
  }

  /** The operation has ended, or was killed. @returns which */
  disarm(): 'ended' | 'killed' {
    this.#proxy.onRequest = () => false
    if (this.#isKilled && this.#when === 'before') this.#when = 'after'
    else {
      this.#number = this.#isKilled && this.#number < this.#last ? this.#number + 1 : 1
      this.#when = 'before'
    }
    return this.#isKilled ? 'killed' : 'ended'
  }

  /** For a report: `12 kills: 2 at each of the requests 1 to 6`, for example. */
  toString(): string {
    const at = [...this.#kills].sort(([a], [b]) => a - b).map(([number, kills]) => `${number}: ${kills}`)
    return `${this.kills} kills (number of the request: kills): ${at.join(', ')}`
  }
}
