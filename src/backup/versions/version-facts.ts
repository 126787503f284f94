import { mapLimit } from '../../base/async/map-limit.ts'
import type { ManifestHead } from '../archive/manifest.ts'
import type { CallOptions } from '../object-store/object-store.ts'
import { parseVersion } from './object-keys.ts'
import type { RememberedFacts, RetentionTable } from './retention/retention-table.ts'
import type { VersionFacts } from './retention/retention-verdicts.ts'
import type { StoredVersion } from './stored-manifest.ts'
import { isUnusable, type Listing, listingOf, type VersionIndex } from './version-index.ts'

const PARALLEL_READS = 8

/** What retention has to know of each version. A manifest is read once by this machine, however many versions there are. */
export class VersionFactsReader {
  readonly #index: VersionIndex
  readonly #table: RetentionTable

  constructor(index: VersionIndex, table: RetentionTable) {
    this.#index = index
    this.#table = table
  }

  /** This machine has just stored a version: what it says need not be read, also by a later process. */
  noteStored(cellId: string, version: string): void {
    const known = this.#index.known(version)
    if (known !== undefined) this.#table.addFacts(cellId, factsOf(known.head, known.sizeBytes))
  }

  /** @param versions all versions of the cell, newest first @returns in the same order */
  async read(
    cellId: string,
    versions: readonly StoredVersion[],
    options: CallOptions,
  ): Promise<VersionFacts[]> {
    const remembered = new Map(this.#table.facts(cellId).map((facts) => [facts.version, facts]))
    const isKnown = ({ version, sizeBytes }: StoredVersion) =>
      remembered.get(version)?.sizeBytes === sizeBytes
    const unknown = versions.filter((each) => !isKnown(each))
    const listing = listingOf(versions)
    const heads = await this.#heads(cellId, unknown, listing, options)
    const chains = new Map<string, readonly string[]>()
    const all = versions.toReversed().map((stored) => {
      const head = heads.get(stored.version)
      const facts = isKnown(stored) ? remembered.get(stored.version) : head && factsOf(head, stored.sizeBytes)
      const chain = facts && chainOf(facts, chains)
      const isWhole = chain !== undefined && (head === undefined || isSame(chain, head.chain))
      // A version that nobody can restore must not be the reason for which a good one goes.
      if (!isWhole || this.#index.isDamaged(stored.version, listing)) {
        const links = head?.chain ?? linksBelow(stored.version, remembered)
        return { ...unusable(stored.version, facts), links }
      }
      chains.set(stored.version, chain)
      if (head !== undefined) this.#table.addFacts(cellId, facts as RememberedFacts)
      const { version, createdAt, at, history, origin } = facts as RememberedFacts
      return { version, createdAt, at, history, origin, chain }
    })
    return all.toReversed()
  }

  /** Forgets versions that are no longer stored. One below a stored version is remembered: it tells what lies further down. */
  forgetOthers(cellId: string, versions: readonly StoredVersion[]): void {
    const remembered = new Map(this.#table.facts(cellId).map((facts) => [facts.version, facts]))
    const needed = new Set(versions.flatMap(({ version }) => [version, ...linksBelow(version, remembered)]))
    for (const version of remembered.keys()) {
      if (!needed.has(version)) this.#table.removeFacts(cellId, version)
    }
  }

  async #heads(
    cellId: string,
    versions: readonly StoredVersion[],
    listing: Listing,
    options: CallOptions,
  ): Promise<Map<string, ManifestHead>> {
    const heads = new Map<string, ManifestHead>()
    const read = async ({ version }: StoredVersion) => {
      try {
        heads.set(version, await this.#index.manifest(version, cellId, listing, options))
      } catch (error) {
        if (!isUnusable(error)) throw error
      }
    }
    await mapLimit(versions, PARALLEL_READS, read)
    return heads
  }
}

function factsOf(
  { version, created_at, origin, chain, log }: ManifestHead,
  sizeBytes: number,
): RememberedFacts {
  const createdAt = Date.parse(created_at)
  return {
    version,
    sizeBytes,
    createdAt,
    at: log?.at ?? createdAt,
    history: log?.history ?? null,
    origin: origin ?? 'schedule',
    previous: chain.at(-1) ?? null,
  }
}

/** @param chains of the versions before it @returns undefined if one of them is missing or damaged */
function chainOf(
  { previous }: RememberedFacts,
  chains: ReadonlyMap<string, readonly string[]>,
): readonly string[] | undefined {
  if (previous === null) return []
  const before = chains.get(previous)
  return before && [...before, previous]
}

/** By what was remembered of a version before it was damaged, newest last. */
function linksBelow(version: string, remembered: ReadonlyMap<string, RememberedFacts>): string[] {
  const links: string[] = []
  let at = remembered.get(version)?.previous
  while (at) {
    links.unshift(at)
    at = remembered.get(at)?.previous
  }
  return links
}

function isSame(a: readonly string[], b: readonly string[]): boolean {
  return a.length === b.length && a.every((each, i) => each === b[i])
}

function unusable(version: string, facts: RememberedFacts | undefined): VersionFacts {
  const createdAt = facts?.createdAt ?? parseVersion(version)?.time ?? 0
  const { at = createdAt, history = null, origin = 'schedule' } = facts ?? {}
  return { version, createdAt, at, history, origin, chain: undefined }
}
