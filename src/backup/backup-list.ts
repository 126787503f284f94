import { isCellError } from '../errors.ts'
import type { BackupKind } from './cell-backup.ts'
import type { Manifest } from './manifest.ts'
import { cellPrefix, compareVersions, parseVersion } from './object-keys.ts'
import type { CallOptions, ObjectStore } from './object-store.ts'
import { type Expected, fetchManifest } from './restore-build.ts'

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
const MANIFESTS_MAX = 10_000
const PARALLEL_READS = 8

/** What backups there are: the object store's own listing, and the manifests, each read once. */
export class BackupCatalogue {
  readonly #store: ObjectStore
  readonly #storeId: string
  readonly #manifests = new Map<string, Manifest>()

  constructor(store: ObjectStore, storeId: string) {
    this.#store = store
    this.#storeId = storeId
  }

  /** Every version of a cell, newest first. */
  async versions(cellId: string, options: CallOptions = {}): Promise<StoredVersion[]> {
    const versions: StoredVersion[] = []
    for await (const { key, size } of this.#store.list(cellPrefix(cellId), options)) {
      if (parseVersion(key)?.cellId === cellId) versions.push({ version: key, sizeBytes: size })
    }
    return versions.sort((a, b) => compareVersions(a.version, b.version))
  }

  /** @throws `backup_not_found`, `backup_corrupt` */
  async manifest(version: string, cellId: string, options: CallOptions = {}): Promise<Manifest> {
    const known = this.#manifests.get(version)
    if (known !== undefined) return known
    const expected: Expected = { storeId: this.#storeId, cellId }
    const manifest = await fetchManifest(this.#store, version, expected, options)
    this.#remember(manifest)
    return manifest
  }

  /** Reads what a listing shows of each version; one whose manifest is damaged is left out. */
  async describe(
    cellId: string,
    versions: readonly StoredVersion[],
    options: CallOptions = {},
  ): Promise<BackupInfo[]> {
    const infos: (BackupInfo | undefined)[] = []
    for (let i = 0; i < versions.length; i += PARALLEL_READS) {
      const some = versions.slice(i, i + PARALLEL_READS)
      infos.push(...(await Promise.all(some.map((version) => this.#describeOne(cellId, version, options)))))
    }
    return infos.filter((info) => info !== undefined)
  }

  forget(version: string): void {
    this.#manifests.delete(version)
  }

  async #describeOne(cellId: string, { version, sizeBytes }: StoredVersion, options: CallOptions) {
    try {
      const { kind, created_at, base_version } = await this.manifest(version, cellId, options)
      return { version, kind, sizeBytes, createdAt: Date.parse(created_at), baseVersion: base_version }
    } catch (error) {
      // Pruned since the listing, or damaged: it can't be restored, so it is no version.
      if (isCellError(error, 'backup_not_found') || isCellError(error, 'backup_corrupt')) return undefined
      throw error
    }
  }

  #remember(manifest: Manifest): void {
    if (this.#manifests.size >= MANIFESTS_MAX) {
      const oldest = this.#manifests.keys().next()
      if (!oldest.done) this.#manifests.delete(oldest.value)
    }
    this.#manifests.set(manifest.version, manifest)
  }
}
