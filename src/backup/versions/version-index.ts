import { LruCache } from '../../base/lru-cache.ts'
import { isCellError } from '../../errors.ts'
import type { Expected, Manifest, ManifestHead } from '../archive/manifest.ts'
import type { CallOptions, ListOptions, ObjectStore } from '../object-store/object-store.ts'
import type { BackupKind } from './backup-types.ts'
import { backupNotFound, cellPrefix, compareVersions, parseVersion } from './object-keys.ts'
import { fetchManifest, type StoredVersion } from './stored-manifest.ts'

export interface BackupInfo {
  version: string
  kind: BackupKind
  /** Bytes of the stored object. */
  sizeBytes: number
  /** Epoch milliseconds. */
  createdAt: number
  baseVersion: string | null
}

/** Sizes of all versions there are, by version. */
export type Listing = ReadonlyMap<string, number>

/** Objects never change, so that what was read of one stays true; this many manifests are remembered. */
const MANIFESTS_MAX = 4_096
const PARALLEL_READS = 8

/** What backups there are: the object store's own listing, and the manifests, each read once. */
export class VersionIndex {
  readonly #store: ObjectStore
  readonly #storeId: string
  readonly #heads = new LruCache<{ head: ManifestHead; sizeBytes: number }>(MANIFESTS_MAX)

  constructor(store: ObjectStore, storeId: string) {
    this.#store = store
    this.#storeId = storeId
  }

  /** Versions of a cell, newest first: all, or those that come after a key. */
  async versions(cellId: string, options: ListOptions = {}): Promise<StoredVersion[]> {
    const versions: StoredVersion[] = []
    for await (const { key, size } of this.#store.list(cellPrefix(cellId), options)) {
      if (parseVersion(key)?.cellId === cellId) versions.push({ version: key, sizeBytes: size })
    }
    return versions.sort((a, b) => compareVersions(a.version, b.version))
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
    // Of another size than before, it is not what it was.
    if (known?.sizeBytes === sizeBytes) return known.head
    const expected: Expected = { storeId: this.#storeId, cellId }
    const manifest = await fetchManifest(this.#store, { version, sizeBytes }, expected, options)
    this.remember(manifest, sizeBytes)
    return manifest
  }

  /**
   * The manifest of a version that can be restored, as far as manifests and the listing tell.
   *
   * @returns undefined if it is damaged or gone, or one that it rests on is
   */
  async restorable(
    version: string,
    cellId: string,
    listing: Listing,
    options: CallOptions = {},
  ): Promise<ManifestHead | undefined> {
    try {
      const manifest = await this.manifest(version, cellId, listing, options)
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

  /** Reads what a listing shows of each version; one that is damaged, or rests on one that is gone, is left out. */
  async describe(
    cellId: string,
    versions: readonly StoredVersion[],
    listing: Listing,
    options: CallOptions = {},
  ): Promise<BackupInfo[]> {
    const infos: (BackupInfo | undefined)[] = []
    for (let i = 0; i < versions.length; i += PARALLEL_READS) {
      const some = versions.slice(i, i + PARALLEL_READS)
      infos.push(
        ...(await Promise.all(some.map((each) => this.#describeOne(cellId, each, listing, options)))),
      )
    }
    return infos.filter((info) => info !== undefined)
  }

  remember({ wals: _, database: __, ...head }: Manifest, sizeBytes: number): void {
    this.#heads.set(head.version, { head, sizeBytes })
  }

  forget(version: string): void {
    this.#heads.delete(version)
  }

  async #describeOne(
    cellId: string,
    { version, sizeBytes }: StoredVersion,
    listing: Listing,
    options: CallOptions,
  ): Promise<BackupInfo | undefined> {
    try {
      const { kind, created_at, base_version, chain } = await this.manifest(version, cellId, listing, options)
      if (!chain.every((link) => listing.has(link))) return undefined
      return { version, kind, sizeBytes, createdAt: Date.parse(created_at), baseVersion: base_version }
    } catch (error) {
      // Pruned since the listing, or damaged: it can't be restored, so it is no version.
      if (isUnusable(error)) return undefined
      throw error
    }
  }
}

export function listingOf(versions: readonly StoredVersion[]): Listing {
  return new Map(versions.map(({ version, sizeBytes }) => [version, sizeBytes]))
}

function isUnusable(error: unknown): boolean {
  return isCellError(error, 'backup_not_found') || isCellError(error, 'backup_corrupt')
}
