import { type BackOff, backOffMs } from '../../base/async/back-off.ts'
import { type Clock, delay } from '../../base/clock.ts'
import type { Log } from '../../base/log.ts'
import type { Assignment } from '../../catalog/assignment/assignment.ts'
import { parseAssignment } from '../../catalog/assignment/parsed-assignment.ts'
import type { Catalog } from '../../catalog/catalog.ts'
import { isCellError } from '../../errors.ts'

/** In `meta`, which all nodes share. The number is apart, so that a change of anything else costs no parsing. */
const NUMBER_KEY = 'assignment_number'
const CONTENT_KEY = 'assignment'
const BACK_OFF: BackOff = { minMs: 100, maxMs: 5_000 }

/** The newest assignment in the catalog: from there the nodes learn of it, in the order of all other changes. */
export class CatalogAssignment {
  readonly #catalog: Catalog
  readonly #clock: Clock
  readonly #log: Log
  #stopped = false

  constructor(catalog: Catalog, clock: Clock, log: Log) {
    this.#catalog = catalog
    this.#clock = clock
    this.#log = log
  }

  /** 0: it has none. */
  get number(): number {
    return Number(this.#catalog.meta(NUMBER_KEY) ?? 0)
  }

  /** @returns undefined if there is none after this number */
  after(number: number): Assignment | undefined {
    if (this.number <= number) return undefined
    return parseAssignment(JSON.parse(this.#catalog.meta(CONTENT_KEY) ?? 'null'))
  }

  /** Writes it, unless the catalog has a newer one; goes on until that is done, or until {@link stop}. */
  async publish(assignment: Assignment): Promise<void> {
    for (let failures = 0; !this.#stopped && this.number < assignment.n; failures++) {
      try {
        await this.#catalog.durably(() => this.#write(assignment))
        return
      } catch (err) {
        if (!isCellError(err, 'cluster_unavailable')) throw err
        if (failures === 0)
          this.#log.warn(
            { err, assignment: assignment.n },
            'the other nodes do not know yet who has which cells; trying again',
          )
      }
      await delay(this.#clock, backOffMs(failures, BACK_OFF))
    }
  }

  stop(): void {
    this.#stopped = true
  }

  #write(assignment: Assignment): void {
    if (this.number >= assignment.n) return
    this.#catalog.setMeta(CONTENT_KEY, JSON.stringify(assignment))
    this.#catalog.setMeta(NUMBER_KEY, String(assignment.n))
  }
}
