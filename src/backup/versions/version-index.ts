import { mapLimit } from '../../base/async/map-limit.ts'
import type { Clock } from '../../base/clock.ts'
import { LruCache } from '../../base/lru-cache.ts'
import { isCellError } from '../../errors.ts'
import type { Expected, Manifest, ManifestHead } from '../archive/manifest.ts'
import type { CallOptions, ListOptions, ObjectStore } from '../object-store/object-store.ts'
import type { BackupInfo } from './backup-types.ts'
import {
  backupNotFound,
  cellPrefix,
  compareVersions,
  parseRestoredMark,
  parseVersion,
  type RestoredMark,
} from './object-keys.ts'
import { fetchManifest, type StoredVersion } from './stored-manifest.ts'
import type { VersionFindings } from './version-findings.ts'

interface ContentsOptions extends ListOptions {
  /** Called with each key that is neither a version nor the mark of a restore. */
  onOther?: (key: string) => void
}

/** The size of each stored version. */
export type Listing = ReadonlyMap<string, number>

type Described = ManifestHead & Partial<Pick<Manifest, 'wals' | 'database'>>

/** Manifests to remember. Objects never change, so a manifest stays valid. */
const MANIFESTS_MAX = 4_096
const PARALLEL_READS = 8
/** A stamp further ahead of the clock is believed only if this store made it: before its clock was set back. */
const AHEAD_MS_MAX = 86_400_000

/** The stored versions of cells, from the object store's listing and the manifests. Each manifest is read once. */
export class VersionIndex {
  readonly #store: ObjectStore
  readonly #storeId: string
  readonly #clock: Clock | undefined
  readonly #heads = new LruCache<{ head: ManifestHead; sizeBytes: number }>(MANIFESTS_MAX)
  /** The newest version of each cell that this node stored. */
  readonly #newest = new LruCache<string>(MANIFESTS_MAX)

  readonly #findings: VersionFindings | undefined

  /**
   * @param clock without one, every stamp is believed, however far ahead
   * @param findings remembers which versions are damaged
   */
  constructor(store: ObjectStore, storeId: string, clock?: Clock, findings?: VersionFindings) {
    this.#store = store
    this.#storeId = storeId
    this.#clock = clock
    this.#findings = findings
  }

  /**
   * Versions of a cell, newest first: all, or those after a key. Leaves out what another hand stored with a stamp far
   * ahead of the clock: it would be the newest version forever.
   */
  async versions(cellId: string, options: ContentsOptions = {}): Promise<StoredVersion[]> {
    return (await this.contents(cellId, options)).versions
  }

  /** {@link versions}, and the cell's marks of restores, newest first. */
  async contents(
    cellId: string,
    { onOther, ...options }: ContentsOptions = {},
  ): Promise<{ versions: StoredVersion[]; marks: RestoredMark[] }> {
    const versions: StoredVersion[] = []
    const marks: RestoredMark[] = []
    for await (const { key, size } of this.#store.list(cellPrefix(cellId), options)) {
      const mark = parseRestoredMark(key)
      if (mark !== undefined) marks.push(mark)
      else if (parseVersion(key)?.cellId === cellId) versions.push({ version: key, sizeBytes: size })
      else onOther?.(key)
    }
    versions.sort((a, b) => compareVersions(a.version, b.version))
    marks.sort((a, b) => b.time - a.time)
    return { versions: await this.#withoutForeign(cellId, versions, options), marks }
  }

  /** @throws `backup_not_found` if it is not in the listing, `backup_corrupt` */
  async manifest(
    version: string,
    cellId: string,
    listing: Listing,
    options: CallOptions = {},
  ): Promise<ManifestHead> {
    const sizeBytes = listing.get(version)
    if (sizeBytes === undefined) throw backupNotFound()
    const known = this.#heads.get(version)
    // If the size differs, the object was replaced from outside.
    if (known?.sizeBytes === sizeBytes) return known.head
    const expected: Expected = { storeId: this.#storeId, cellId }
    const manifest = await fetchManifest(this.#store, { version, sizeBytes }, expected, options)
    this.remember(manifest, sizeBytes)
    return manifest
  }

  /** As {@link manifest}. @returns undefined if the version is damaged, or was removed since the listing */
  async readable(...version: Parameters<VersionIndex['manifest']>): Promise<ManifestHead | undefined> {
    try {
      return await this.manifest(...version)
    } catch (error) {
      if (isUnusable(error)) return undefined
      throw error
    }
  }

  /**
   * The manifest of a version that can be restored, as far as the manifests and the listing show.
   *
   * @returns undefined if the version or one of its chain is damaged or missing
   */
  async restorable(
    version: string,
    cellId: string,
    listing: Listing,
    options: CallOptions = {},
  ): Promise<ManifestHead | undefined> {
    try {
      const manifest = await this.manifest(version, cellId, listing, options)
      if (this.knownDamage(manifest, listing) !== undefined) return undefined
      for (const [i, link] of manifest.chain.entries()) {
        const { chain } = await this.manifest(link, cellId, listing, options)
        if (chain.length !== i || !chain.every((each, j) => each === manifest.chain[j])) return undefined
      }
      return manifest
    } catch (error) {
      if (isUnusable(error)) return undefined
      throw error
    }
  }

  /** Describes versions for a listing. Leaves out damaged versions, and those whose chain has a gap. */
  async describe(
    cellId: string,
    versions: readonly StoredVersion[],
    listing: Listing,
    options: CallOptions = {},
  ): Promise<BackupInfo[]> {
    const isDamaged = remembered((version: string) => this.isDamaged(version, listing))
    const describe = (each: StoredVersion) => this.#describeOne(cellId, each, listing, isDamaged, options)
    const infos = await mapLimit(versions, PARALLEL_READS, describe)
    return infos.filter((info) => info !== undefined)
  }

  /** A restore has read this version in full and found it damaged, or has proven it. */
  proven(version: string, listing: Listing, isWhole: boolean): void {
    const sizeBytes = listing.get(version)
    if (isWhole) this.#findings?.removeDamaged(version)
    else if (sizeBytes !== undefined) this.#findings?.addDamaged(version, sizeBytes)
  }

  /** The version, of this one and its chain, that an earlier restore has found damaged. */
  knownDamage({ version, chain }: ManifestHead, listing: Listing): string | undefined {
    return [...chain, version].find((each) => this.isDamaged(each, listing))
  }

  /** Whether an earlier look has found this very object damaged. */
  isDamaged(version: string, listing: Listing): boolean {
    const sizeBytes = this.#findings?.damagedSize(version)
    return sizeBytes !== undefined && sizeBytes === listing.get(version)
  }

  remember({ wals: _, database: __, ...head }: Described, sizeBytes: number): void {
    this.#heads.set(head.version, { head, sizeBytes })
  }

  /** A backup was just stored, by this process or by one of its workers: the cell's newest. */
  stored(manifest: Described, sizeBytes: number): void {
    this.remember(manifest, sizeBytes)
    const { cell_id: cellId, version } = manifest
    const before = this.#newest.get(cellId)
    if (before === undefined || compareVersions(before, version) > 0) this.#newest.set(cellId, version)
  }

  /** What this process knows of a version, without a look at the object store. */
  known(version: string): { head: ManifestHead; sizeBytes: number } | undefined {
    return this.#heads.get(version)
  }

  /** The object is removed. */
  forget(version: string): void {
    this.#heads.delete(version)
    this.#findings?.removeDamaged(version)
    const cellId = parseVersion(version)?.cellId
    if (cellId !== undefined && this.#newest.get(cellId) === version) this.#newest.delete(cellId)
  }

  /**
   * The newest backup of a cell, if this node stored it: without a listing, whose cost grows with the number of versions.
   * Looks whether the object and its chain's base are still there; a rule that removes old objects takes the base first.
   *
   * @returns undefined if a listing has to tell
   */
  async newestStored(cellId: string, options: CallOptions = {}): Promise<BackupInfo | undefined> {
    const version = this.#newest.get(cellId)
    const known = version === undefined ? undefined : this.#heads.get(version)
    if (version === undefined || known === undefined) return undefined
    const { head, sizeBytes } = known
    const bases = head.chain.slice(0, 1)
    const [found, ...others] = await Promise.all(
      [version, ...bases].map((key) => this.#store.head(key, options)),
    )
    return found?.size === sizeBytes && others.every((other) => other !== undefined)
      ? infoOf(head, sizeBytes)
      : undefined
  }

  /** If the newest one is this store's, so are the stamps before it, or they do no harm. */
  async #withoutForeign(
    cellId: string,
    versions: StoredVersion[],
    { signal }: CallOptions,
  ): Promise<StoredVersion[]> {
    const latest = (this.#clock?.now() ?? Number.POSITIVE_INFINITY) + AHEAD_MS_MAX
    for (let i = 0; ; i++) {
      const next = versions[i]
      const isAhead = next !== undefined && (parseVersion(next.version)?.time ?? 0) > latest
      if (!isAhead || (await this.#isOwn(cellId, next, { signal }))) return versions.slice(i)
    }
  }

  async #isOwn(cellId: string, stored: StoredVersion, options: CallOptions): Promise<boolean> {
    return (await this.readable(stored.version, cellId, listingOf([stored]), options)) !== undefined
  }

  async #describeOne(
    cellId: string,
    { version, sizeBytes }: StoredVersion,
    listing: Listing,
    isDamaged: (version: string) => boolean,
    options: CallOptions,
  ): Promise<BackupInfo | undefined> {
    const head = await this.readable(version, cellId, listing, options)
    if (head === undefined) return undefined
    const isWhole = head.chain.every((link) => listing.has(link) && !isDamaged(link)) && !isDamaged(version)
    return isWhole ? infoOf(head, sizeBytes) : undefined
  }
}

function infoOf({ version, kind, created_at, base_version }: ManifestHead, sizeBytes: number): BackupInfo {
  return { version, kind, sizeBytes, createdAt: Date.parse(created_at), baseVersion: base_version }
}

/** Versions share most of their chains: of a page, each one is looked up once. */
function remembered(look: (version: string) => boolean): (version: string) => boolean {
  const known = new Map<string, boolean>()
  return (version) => {
    const answer = known.get(version) ?? look(version)
    known.set(version, answer)
    return answer
  }
}

export function listingOf(versions: readonly StoredVersion[]): Listing {
  return new Map(versions.map(({ version, sizeBytes }) => [version, sizeBytes]))
}

/** Whether the error says that a version cannot be restored, rather than that nobody can tell. */
export function isUnusable(error: unknown): boolean {
  return isCellError(error, 'backup_not_found') || isCellError(error, 'backup_corrupt')
}
