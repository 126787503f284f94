import { CellError, isCellError } from '../../errors.ts'
import { DATABASE_MEMBER } from '../archive/manifest.ts'
import type { RestoreResult } from '../versions/backup-types.ts'
import { backupNotFound } from '../versions/object-keys.ts'
import type { CellRestorerParts } from './cell-restorer.ts'
import { findVersion, type WantedState } from './find-version.ts'
import { buildDatabase } from './restore-build.ts'
import { proveCell } from './restore-database.ts'
import { discardRestored } from './restore-install.ts'

export interface CellBranch extends WantedState {
  /** Waits until so many stored bytes may be read. */
  willMove(bytes: number): Promise<void>
}

/** Builds the files of new cells from the backups of other cells. */
export class CellBrancher {
  readonly #parts: CellRestorerParts

  constructor(parts: CellRestorerParts) {
    this.#parts = parts
  }

  /**
   * Builds a state of the cell `source` as `incoming.db` of a new cell, which nobody has opened yet.
   *
   * @throws as a restore; `backup_not_found` also for what retention or a purge removes meanwhile
   */
  async run(source: string, cellId: string, branch: CellBranch): Promise<RestoreResult> {
    const { clock, objectStore, threads } = this.#parts
    const { signal } = branch
    const started = clock.monotonic()
    signal?.throwIfAborted()
    const { restoreTarget: file } = this.#parts.paths(cellId)
    try {
      const { version, kind, timestamp, sizeBytes } = await this.#build(source, cellId, branch)
      proveCell(file, DATABASE_MEMBER)
      await threads.run({ kind: 'detach', file, member: DATABASE_MEMBER }, sizeBytes)
      signal?.throwIfAborted()
      const durationMs = clock.monotonic() - started
      return { version, kind, timestamp, replacedAt: null, sizeBytes, durationMs }
    } catch (error) {
      discardRestored(this.#parts.paths(cellId))
      const { version } = error instanceof CellError ? error.details : {}
      const mayBeGone = isCellError(error, 'backup_corrupt') && version !== undefined
      if (mayBeGone && (await objectStore.head(version, { signal })) === undefined) throw backupNotFound()
      throw error
    }
  }

  async #build(source: string, cellId: string, branch: CellBranch) {
    const { reader, index, storeId, threads, limits, paths } = this.#parts
    const { signal, onProgress, willMove } = branch
    const { manifest, listing } = await findVersion(index, source, branch)
    const expected = { storeId, cellId: source, limits }
    const sizeBytes = await buildDatabase(reader, manifest, expected, paths(cellId), threads, {
      signal,
      onProgress: (bytes, total) => onProgress?.({ phase: 'download', bytes, total }),
      willMove,
      onDamage: (each) => index.proven(each, listing, false),
    })
    for (const each of [...manifest.chain, manifest.version]) index.proven(each, listing, true)
    const { version, kind, created_at } = manifest
    return { version, kind, timestamp: Date.parse(created_at), sizeBytes }
  }
}
