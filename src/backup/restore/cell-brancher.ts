import { CellError, isCellError } from '../../errors.ts'
import { DATABASE_MEMBER } from '../archive/manifest.ts'
import type { RestoreOptions, RestoreResult } from '../versions/backup-types.ts'
import { backupNotFound, parseVersion } from '../versions/object-keys.ts'
import type { CellRestorerParts } from './cell-restorer.ts'
import { findTarget, type WantedRestore } from './find-target.ts'
import { buildDatabase } from './restore-build.ts'
import { proveCell } from './restore-database.ts'
import { discardRestored } from './restore-install.ts'
import { timeOf } from './restore-target.ts'
import { ShippedLog } from './shipped-log.ts'

export interface CellBranch extends WantedRestore, Pick<RestoreOptions, 'onProgress'> {
  /** The database file of the other cell is on this machine. */
  isLocal: boolean
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
    const isBehind = await this.#isBehind(source, branch)
    const { restoreTarget: file } = this.#parts.paths(cellId)
    try {
      const { version, kind, timestamp, sizeBytes } = await this.#build(source, cellId, {
        ...branch,
        isBehind,
      })
      proveCell(file, DATABASE_MEMBER)
      await threads.run({ kind: 'detach', file, member: DATABASE_MEMBER }, sizeBytes)
      signal?.throwIfAborted()
      const durationMs = clock.monotonic() - started
      return { version, kind, timestamp, replacedAt: null, sizeBytes, durationMs }
    } catch (error) {
      discardRestored(this.#parts.paths(cellId))
      const { version } = error instanceof CellError ? error.details : {}
      const isOfVersion =
        isCellError(error, 'backup_corrupt') && version !== undefined && parseVersion(version)
      if (isOfVersion && (await objectStore.head(version, { signal })) === undefined) throw backupNotFound()
      throw error
    }
  }

  async #build(source: string, cellId: string, branch: CellBranch) {
    const { reader, index, storeId, threads, limits, paths } = this.#parts
    const { signal, onProgress, willMove } = branch
    const { target, listing } = await findTarget(this.#parts, source, branch)
    const { manifest, wals, time } = target
    const shipped =
      wals.length === 0 ? undefined : new ShippedLog(this.#parts.log, wals, timeOf(manifest), { signal })
    const expected = { storeId, cellId: source, limits }
    const sizeBytes = await buildDatabase(reader, manifest, expected, paths(cellId), threads, {
      signal,
      onProgress: (bytes, total) => onProgress?.({ phase: 'download', bytes, total }),
      willMove,
      onDamage: (each) => index.proven(each, listing, false),
      log: shipped,
    })
    for (const each of [...manifest.chain, manifest.version]) index.proven(each, listing, true)
    const { version, kind } = manifest
    return { version, kind, timestamp: time, sizeBytes }
  }

  /** A moment may be so recent that it is not shipped yet. @returns whether something of the cell is stored nowhere even so */
  async #isBehind(source: string, { timestamp, isLocal, signal }: CellBranch): Promise<boolean> {
    const { flush } = this.#parts
    if (flush === undefined || timestamp === undefined || !isLocal) return false
    return !(await flush(source, { signal }))
  }
}
