import { CellError, isCellError } from '../../errors.ts'
import type { RestoreResult } from '../versions/backup-types.ts'
import { backupNotFound, parseVersion } from '../versions/object-keys.ts'
import type { CellRestorerParts } from './cell-restorer.ts'
import { discardRestored } from './install/restore-install.ts'
import { type BuildOptions, buildTarget } from './target/build-target.ts'
import { findTarget, type WantedRestore } from './target/find-target.ts'

export interface CellBranch extends WantedRestore, BuildOptions {}

/** Builds the files of new cells from the backups of other cells. */
export class CellBrancher {
  readonly #parts: CellRestorerParts

  constructor(parts: CellRestorerParts) {
    this.#parts = parts
  }

  /**
   * Builds a state of the cell `source` as `incoming.db` of a new cell, which nobody has opened yet. If retention removes the
   * chosen version meanwhile, another one may have the same moment, with what was shipped after it.
   *
   * @throws as a restore; `backup_not_found` also if nothing has the state any more
   */
  async run(source: string, cellId: string, branch: CellBranch): Promise<RestoreResult> {
    branch.signal?.throwIfAborted()
    const started = this.#parts.clock.monotonic()
    const built = (await this.#build(source, cellId, branch)) ?? (await this.#build(source, cellId, branch))
    if (built === undefined) throw backupNotFound()
    return { ...built, replacedAt: null, durationMs: this.#parts.clock.monotonic() - started }
  }

  /** @returns undefined if a version that it needs has gone since it was listed */
  async #build(
    source: string,
    cellId: string,
    branch: CellBranch,
  ): Promise<Omit<RestoreResult, 'replacedAt' | 'durationMs'> | undefined> {
    const { signal } = branch
    const paths = this.#parts.paths(cellId)
    try {
      const found = await findTarget(this.#parts, source, branch)
      const { manifest, time } = found.target
      const sizeBytes = await buildTarget(this.#parts, source, found, paths, branch)
      signal?.throwIfAborted()
      const { version, kind } = manifest
      return { version, kind, timestamp: time, sizeBytes }
    } catch (error) {
      discardRestored(paths)
      if (await this.#isGone(error, signal)) return undefined
      throw error
    }
  }

  /** Whether a version could not be read because it is stored no more. */
  async #isGone(error: unknown, signal: AbortSignal | undefined): Promise<boolean> {
    const { version } = error instanceof CellError ? error.details : {}
    if (!isCellError(error, 'backup_corrupt') || version === undefined || !parseVersion(version)) return false
    return (await this.#parts.objectStore.head(version, { signal })) === undefined
  }
}
