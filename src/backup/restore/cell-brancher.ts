import { CellError, isCellError } from '../../errors.ts'
import type { RestoreResult } from '../versions/backup-types.ts'
import { backupNotFound, parseVersion } from '../versions/object-keys.ts'
import { type BuildOptions, buildTarget } from './build-target.ts'
import type { CellRestorerParts } from './cell-restorer.ts'
import { findTarget, type WantedRestore } from './find-target.ts'
import { discardRestored } from './restore-install.ts'

export interface CellBranch extends WantedRestore, BuildOptions {}

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
    const { clock, objectStore } = this.#parts
    const { signal } = branch
    const started = clock.monotonic()
    signal?.throwIfAborted()
    const paths = this.#parts.paths(cellId)
    try {
      const found = await findTarget(this.#parts, source, branch)
      const { manifest, time } = found.target
      const sizeBytes = await buildTarget(this.#parts, source, found, paths, branch)
      signal?.throwIfAborted()
      const { version, kind } = manifest
      const durationMs = clock.monotonic() - started
      return { version, kind, timestamp: time, replacedAt: null, sizeBytes, durationMs }
    } catch (error) {
      discardRestored(paths)
      const { version } = error instanceof CellError ? error.details : {}
      const isOfVersion =
        isCellError(error, 'backup_corrupt') && version !== undefined && parseVersion(version)
      if (isOfVersion && (await objectStore.head(version, { signal })) === undefined) throw backupNotFound()
      throw error
    }
  }
}
