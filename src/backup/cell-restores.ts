import type { Log } from '../base/log.ts'
import { cellNotFound } from '../catalog/cell-registry.ts'
import { CellError, isCellError } from '../errors.ts'
import { toBackupError } from './archive/backup-errors.ts'
import type { JobOptions, RestoreRequest } from './archiver/archiver.ts'
import type { Need } from './archiver/job.ts'
import type { BackupReports } from './backup-reports.ts'
import type { AskingParts } from './branches.ts'
import type { BackupProgress } from './changes/backup-progress.ts'
import type { BackupOptions, RestoreOptions, RestoreResult } from './versions/backup-types.ts'
import { compareVersions, versionOf } from './versions/object-keys.ts'
import type { VersionIndex } from './versions/version-index.ts'
import type { RestorePermits } from './versions/work-in-progress.ts'

interface CellRestoresParts extends AskingParts {
  permits: RestorePermits
  reports: BackupReports
  /** Told of a damaged version of a cell that lives on: the error says which. */
  foundDamage(cellId: string, version: string | undefined, error: CellError): Promise<void>
}

interface AskedOptions extends BackupOptions {
  /** The cell existed when the restore was asked for. */
  existed: boolean
}

/** Has the archiver restore cells: those that somebody asks for, and those whose local data is lost. */
export class CellRestores {
  readonly #parts: CellRestoresParts

  constructor(parts: CellRestoresParts) {
    this.#parts = parts
  }

  /** @throws as `BackupManager.restore` */
  async request(cellId: string, options: RestoreOptions): Promise<RestoreResult> {
    const { version, timestamp, accountId, signal } = options
    const request = { version, timestamp, accountId, need: 'requested', onlyIfLost: false } as const
    const { work } = this.#parts.destination
    const asked = { ...options, existed: this.#exists(cellId) }
    const result = await work.request(cellId, () => this.#restore(cellId, request, asked), signal)
    return result as RestoreResult
  }

  /** @throws as `BackupManager.recoverIfLost` */
  async recoverIfLost(cellId: string, need: Need, signal?: AbortSignal): Promise<void> {
    const { archiver, destination, isLocal, assertRunning } = this.#parts
    if (isLocal(cellId)) return
    assertRunning()
    this.#assertExists(cellId)
    const recover = () => this.#recover(cellId, need, signal)
    const raise = () => archiver.raise(cellId, need)
    await destination.work.recover(cellId, need === 'waiting', recover, raise)
  }

  async #recover(cellId: string, need: Need, signal: AbortSignal | undefined): Promise<void> {
    const { destination } = this.#parts
    const before = destination.progress.find(cellId)
    const request = { version: undefined, accountId: undefined, need, onlyIfLost: true }
    const asked = { signal, existed: this.#exists(cellId) }
    const result = await this.#restore(cellId, request, asked).catch((error) => {
      if (!isCellError(error, 'backup_not_found')) throw error
      throw new CellError('no_backup', "The cell's local data is lost, and the cell has no backup.")
    })
    if (result === undefined) return
    const { log, index } = destination
    // The cell is back whatever the object store answers now.
    await reportSetBack(log, index, before, result.version).catch((err) =>
      log.warn({ cellId, err }, 'could not look whether the newest backup of a restored cell is missing'),
    )
  }

  async #restore(
    cellId: string,
    request: Omit<RestoreRequest, 'cellId' | 'account'>,
    { signal, onProgress, permit, requestId, existed }: AskedOptions,
  ): Promise<RestoreResult | undefined> {
    const { version, onlyIfLost: recovers } = request
    const job = () => this.#runRestore(cellId, request, { signal, onProgress, permit }, existed)
    const run = () => this.#parts.permits.during(cellId, permit, job)
    return await this.#parts.reports.restore({ cellId, version, recovers, requestId, signal }, run)
  }

  async #runRestore(
    cellId: string,
    request: Omit<RestoreRequest, 'cellId' | 'account'>,
    options: JobOptions,
    existed: boolean,
  ): Promise<RestoreResult | undefined> {
    const { archiver, destination, record, isLocal, foundDamage } = this.#parts
    const account = request.accountId ?? record(cellId)?.accountId ?? ''
    // Asked when its turn comes. Whoever deletes the cell before that does not want it back.
    const check = () => {
      if (existed) this.#assertExists(cellId)
      options.permit?.check()
    }
    try {
      await this.#turnToShip(cellId, request.accountId, options.signal)
      const permitted = { ...options, permit: { check } }
      return await archiver.restore({ ...request, cellId, account }, permitted)
    } catch (error) {
      if (isCellError(error, 'backup_corrupt') && this.#exists(cellId) && isLocal(cellId))
        await foundDamage(cellId, request.version, error).catch((err) =>
          destination.log.warn({ cellId, err }, 'could not note what a restore has found damaged'),
        )
      // The cell's folder was removed with it, which can cause any error here.
      throw existed && !this.#exists(cellId) ? cellNotFound() : error
    }
  }

  /** It ships what is pending. It waits here, where it holds up no others, and its cell is used meanwhile. */
  async #turnToShip(cellId: string, accountId: string | undefined, signal: AbortSignal | undefined) {
    const { archiver, flushes, isLocal } = this.#parts
    if (accountId === undefined || archiver.shipping === undefined || !isLocal(cellId)) return
    await flushes.turn(accountId, signal).catch((error) => {
      throw toBackupError(error, signal)
    })
  }

  #assertExists(cellId: string): void {
    if (!this.#exists(cellId)) throw cellNotFound()
  }

  #exists(cellId: string): boolean {
    return this.#parts.record(cellId)?.deletedAt === null
  }
}

/**
 * Says what was lost with a cell's local files. If this machine never stored the cell, it is a new one, and the restore is
 * what its owner expects: a line of the level info.
 *
 * @param before what was known of the cell before its restore
 * @param version what it was restored to
 */
async function reportSetBack(
  log: Log,
  index: VersionIndex,
  before: BackupProgress,
  version: string,
): Promise<void> {
  const { cellId, dirty, lastVersion, lastBackupAt } = before
  const missing = await missingVersion(index, before, version)
  if (missing !== undefined) {
    log.error(
      { cellId, version, missing },
      'the local files of a cell are lost, and the backup that this machine stored or restored last is no longer listed; the cell is set back to an older one, and what was changed between the two is lost',
    )
  } else if (dirty) {
    const lostSince = lastBackupAt === null ? null : new Date(lastBackupAt).toISOString()
    log.error(
      { cellId, version, lostSince },
      'the local files of a cell are lost, with changes that no backup has; the cell is set back to its newest backup',
    )
  } else if (lastVersion !== null) {
    log.warn(
      { cellId, version },
      'the local files of a cell are lost; the cell is restored from its newest backup, and no change is known to be lost',
    )
  } else {
    log.info({ cellId, version }, 'a cell comes from its newest backup; this machine had no files of it')
  }
}

/** What this machine stored last, if an older version came back because nobody lists it. */
async function missingVersion(
  index: VersionIndex,
  { cellId, chain, dirty, lastVersion }: BackupProgress,
  version: string,
): Promise<string | undefined> {
  // Of a changed cell without a chain, the last name may be that of a backup that failed.
  const stored = chain?.versions.at(-1) ?? (dirty ? null : lastVersion)
  if (stored === null || compareVersions(version, stored) <= 0) return undefined
  const { versions, marks } = await index.contents(cellId)
  // The name may be that of a mark: the cell was restored then, to the version that the mark names.
  const last = marks.find(({ time }) => versionOf(cellId, time) === stored)?.version ?? stored
  return versions.some((each) => each.version === last) ? undefined : last
}
