import { isCellError } from '../errors.ts'
import type { BackupKind } from './cell-backup.ts'
import type { Expected } from './incoming-builder.ts'
import type { Manifest, ManifestHead } from './manifest.ts'
import { cellPrefix, compareVersions, parseVersion } from './object-keys.ts'
import type { CallOptions, ListOptions, ObjectStore } from './object-store.ts'
import { fetchManifest } from './stored-manifest.ts'

export interface BackupInfo {
  version: string
  kind: BackupKind
  /** Bytes of the stored object. */
  sizeBytes: number
  /** Epoch milliseconds. */
  createdAt: number
  baseVersion: string | null
}

export interface StoredVersion {
  version: string
  sizeBytes: number
}

/** Objects never change, so that what was read of one stays true; this many manifests are remembered. */
const MANIFESTS_MAX = 4_096
const PARALLEL_READS = 8

/** What backups there are: the object store's own listing, and the manifests, each read once. */
export class BackupCatalogue {
  readonly #store: ObjectStore
  readonly #storeId: string
  readonly #heads = new Map<string, ManifestHead>()

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

  /** @throws `backup_not_found`, `backup_corrupt` */
  async manifest(version: string, cellId: string, options: CallOptions = {}): Promise<ManifestHead> {
    const known = this.#heads.get(version)
    if (known !== undefined) return known
    const expected: Expected = { storeId: this.#storeId, cellId }
    const manifest = await fetchManifest(this.#store, version, expected, options)
    this.remember(manifest)
    return manifest
  }

  /**
   * The manifest of a version that can be restored, as far as manifests and the listing tell.
   *
   * @param present all versions there are
   * @returns undefined if it is damaged or gone, or one that it rests on is
   */
  async restorable(
    version: string,
    cellId: string,
    present: ReadonlySet<string>,
    options: CallOptions = {},
  ): Promise<ManifestHead | undefined> {
    try {
      const manifest = await this.manifest(version, cellId, options)
      if (!manifest.chain.every((link) => present.has(link))) return undefined
      for (const [i, link] of manifest.chain.entries()) {
        const { chain } = await this.manifest(link, cellId, options)
        if (chain.length !== i || !chain.every((each, j) => each === manifest.chain[j])) return undefined
      }
      return manifest
    } catch (error) {
      if (isUnusable(error)) return undefined
      throw error
    }
  }

  /**
   * Reads what a listing shows of each version; one that is damaged, or rests on one that is gone, is left out.
   *
   * @param all versions there are
   */
  async describe(
    cellId: string,
    versions: readonly StoredVersion[],
    all: readonly StoredVersion[],
    options: CallOptions = {},
  ): Promise<BackupInfo[]> {
    const present = new Set(all.map(({ version }) => version))
    const infos: (BackupInfo | undefined)[] = []
    for (let i = 0; i < versions.length; i += PARALLEL_READS) {
      const some = versions.slice(i, i + PARALLEL_READS)
      infos.push(
        ...(await Promise.all(some.map((each) => this.#describeOne(cellId, each, present, options)))),
      )
    }
    return infos.filter((info) => info !== undefined)
  }

  remember({ wals: _, database: __, ...head }: Manifest): void {
    if (this.#heads.size >= MANIFESTS_MAX) {
      const oldest = this.#heads.keys().next()
      if (!oldest.done) this.#heads.delete(oldest.value)
    }
    this.#heads.set(head.version, head)
  }

  forget(version: string): void {
    this.#heads.delete(version)
  }

  async #describeOne(
    cellId: string,
    { version, sizeBytes }: StoredVersion,
    present: ReadonlySet<string>,
    options: CallOptions,
  ): Promise<BackupInfo | undefined> {
    try {
      const { kind, created_at, base_version, chain } = await this.manifest(version, cellId, options)
      if (!chain.every((link) => present.has(link))) return undefined
      return { version, kind, sizeBytes, createdAt: Date.parse(created_at), baseVersion: base_version }
    } catch (error) {
      // Pruned since the listing, or damaged: it can't be restored, so it is no version.
      if (isUnusable(error)) return undefined
      throw error
    }
  }
}

function isUnusable(error: unknown): boolean {
  return isCellError(error, 'backup_not_found') || isCellError(error, 'backup_corrupt')
}
