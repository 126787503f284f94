import { type Clock, within } from '../base/clock.ts'
import type { NodeRow } from './membership/node-table.ts'
import type { PostgresCatalog } from './postgres/postgres-catalog.ts'

/** A request waits no longer for the catalog. */
const CATCH_UP_MS = 1_000
/** The others are asked no more often, however many requests have keys that nobody knows. */
const ASKED_EVERY_MS = 1_000

interface FreshnessParts {
  clock: Clock
  /** Undefined before the store is open. */
  catalog(): Pick<PostgresCatalog, 'version' | 'catchUp'> | undefined
  /** How far another node's catalog is. @throws if it does not answer in time */
  versionOf(node: NodeRow): Promise<number>
  /** Nodes that may have changed the catalog. */
  others(): readonly NodeRow[]
}

/** Whether a node's catalog is as new as can be, for requests that have found something missing in it. */
export class CatalogFreshness {
  readonly #parts: FreshnessParts
  /** The last try to catch up has found PostgreSQL. */
  #isCurrent = false
  #asked: { at: number; newest: Promise<number> } | undefined

  constructor(parts: FreshnessParts) {
    this.#parts = parts
  }

  /** As `ClusterPeers`. */
  async catchUp(since: number): Promise<boolean> {
    const catalog = this.#parts.catalog()
    if (catalog === undefined) return false
    let isCurrent = false
    const current = () => {
      isCurrent = true
    }
    await within(
      this.#parts.clock,
      CATCH_UP_MS,
      catalog.catchUp().then(current, () => {}),
    )
    this.#isCurrent = isCurrent
    return catalog.version > since
  }

  /** As `ClusterPeers`. A node that does not answer may know of changes. */
  async mayLackChanges(): Promise<boolean> {
    if (this.#isCurrent) return false
    const now = this.#parts.clock.monotonic()
    if (this.#asked === undefined || now - this.#asked.at >= ASKED_EVERY_MS)
      this.#asked = { at: now, newest: this.#newest() }
    const newest = await this.#asked.newest
    return newest > (this.#parts.catalog()?.version ?? 0)
  }

  async #newest(): Promise<number> {
    const { others, versionOf } = this.#parts
    const versions = others().map((node) => versionOf(node).catch(() => Number.POSITIVE_INFINITY))
    return Math.max(0, ...(await Promise.all(versions)))
  }
}
