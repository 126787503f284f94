import type { ManifestHead } from '../../backup/archive/manifest.ts'
import type { BackupDestination } from '../../backup/archiver/backup-destination.ts'
import { objectStoreNotConfigured } from '../../backup/backup-manager.ts'
import type { CatalogBackup } from '../../backup/catalog-backup.ts'
import { CALL, type CallOptions } from '../../backup/object-store/object-store.ts'
import type { BackgroundRecovery } from '../../backup/recovery/background-recovery.ts'
import type { VerificationTable } from '../../backup/verify/verification-table.ts'
import { Emitter } from '../../base/async/emitter.ts'
import type { Clock } from '../../base/clock.ts'
import type { Log } from '../../base/log.ts'
import { checkOptions } from '../../base/options/option-shapes.ts'
import { type CellRecord, type CellRegistry, cellNotFound } from '../../catalog/cell-registry.ts'
import type { LocalState } from '../../catalog/local-state.ts'
import { CellError, isCellError } from '../../errors.ts'
import type { ExpiryHints } from '../../kv/expiry/expiry-hints.ts'
import type { CellFiles } from '../open/cell-files.ts'
import type { CellsFolder } from '../start/cells-folder.ts'
import type { BuildNotes } from '../start/left-files.ts'
import type { ChangeHub } from '../watch/change-hub.ts'
import type { PurgedCell } from './cell-directory.ts'
import type { CellNames } from './cell-names.ts'

/** What keeps something of each cell. The last four: undefined without an object store, `recovery` also if it is turned off. */
interface CellLifecycleParts {
  registry: CellRegistry
  names: CellNames
  files: CellFiles
  cellsFolder: CellsFolder
  state: LocalState
  hints: ExpiryHints
  changes: ChangeHub
  clock: Clock
  log: Log
  /** Of cells whose files a deletion is about to remove. */
  deletionNotes: BuildNotes
  destination: BackupDestination | undefined
  catalogBackup: CatalogBackup | undefined
  verifications: VerificationTable | undefined
  recovery: BackgroundRecovery | undefined
}

/** Tells all parts of a store that a cell comes with its contents, is deleted, or is restored. */
export class CellLifecycle {
  /** Emitted with the id of each cell that is restored. */
  readonly restores = new Emitter<[string]>()
  /** Emitted when a cell's file has come, has gone or is another one, with the account that has the cell. */
  readonly filesReplaced = new Emitter<[cellId: string, accountId: string | null]>()
  readonly #parts: CellLifecycleParts

  constructor(parts: CellLifecycleParts) {
    this.#parts = parts
  }

  /** Before the catalog has the cell: its entries can expire, and no backup has it, also if this process ends now. */
  imported(id: string): void {
    const now = this.#parts.clock.now()
    this.#parts.hints.note(id, now)
    this.#parts.destination?.progress.setChanged(id, now)
  }

  /** As {@link imported}. Until its first backup only this machine has the cell, so that backup is due at once. */
  branched(id: string): void {
    const now = this.#parts.clock.now()
    this.#parts.hints.note(id, now)
    this.#parts.destination?.progress.setUnstored(id, now)
  }

  /** The catalog has a new cell, whose file is there. */
  made(id: string, accountId: string | null): void {
    this.#parts.catalogBackup?.cellCame(id)
    this.filesReplaced.emit(id, accountId)
  }

  /**
   * Notes that a cell's files are about to be removed. Never throws: a deletion is possible on a full disk, too. Without the note, a
   * crash right after the deletion leaves files.
   */
  async noteDeletion(id: string): Promise<void> {
    await this.#parts.deletionNotes.addAside(id).catch((err) => this.#notNoted(id, err))
  }

  /** As {@link noteDeletion}, on this thread. */
  noteDeletionNow(id: string): void {
    try {
      this.#parts.deletionNotes.add(id)
    } catch (err) {
      this.#notNoted(id, err)
    }
  }

  /** There was no deletion after {@link noteDeletion}. */
  withdrawNote(id: string): void {
    this.#parts.deletionNotes.remove(id)
  }

  /**
   * Deletes the cell in the catalog; its files stay. Call {@link noteDeletion} before.
   *
   * @returns epoch milliseconds
   * @throws `cell_not_found`
   */
  setDeleted(id: string, requestId?: string): number {
    const { clock, registry, log, recovery, changes } = this.#parts
    const deletedAt = clock.now()
    registry.require(id)
    registry.delete(id, deletedAt)
    log.info({ cellId: id, requestId }, 'a cell is deleted; its backups stay')
    recovery?.deleted(id)
    changes.end(id, cellNotFound())
    return deletedAt
  }

  /**
   * Removes a deleted cell's files and local state. No process has the cell open.
   *
   * @param accountId who had it: the catalog may have forgotten the cell
   */
  removeLocal(id: string, accountId: string | null): void {
    this.forgetLocal(id)
    this.#parts.files.remove(id)
    this.#removed(id, accountId)
  }

  /** {@link removeLocal} that leaves the files, out of the way. @returns removes them, in the thread pool; never rejects */
  moveLocalAside(id: string, accountId: string | null): () => Promise<void> {
    this.forgetLocal(id)
    const remove = this.#parts.files.moveAside(id)
    this.#removed(id, accountId)
    return () =>
      remove().catch((err) => {
        this.#parts.log.warn(
          { cellId: id, err },
          'could not remove the files of a deleted cell; the next start does',
        )
      })
  }

  /** Removes what the local state has of a cell whose files go. Never throws. */
  forgetLocal(id: string): void {
    const { state, destination, verifications, hints, log } = this.#parts
    try {
      state.together(() => {
        destination?.forget(id)
        verifications?.remove(id)
        hints.remove(id)
      })
    } catch (err) {
      log.warn({ cellId: id, err }, 'could not remove the local state of a deleted cell')
    }
  }

  #removed(id: string, accountId: string | null): void {
    this.#parts.deletionNotes.remove(id)
    this.filesReplaced.emit(id, accountId)
  }

  #notNoted(cellId: string, err: unknown): void {
    this.#parts.log.warn({ cellId, err }, 'could not note that the files of a deleted cell are being removed')
  }

  /**
   * Records a restored cell: if the catalog lacks it, or has it as deleted, the cell exists again.
   *
   * @throws `disk_full`, what the catalog throws; then it does not, and its files are gone
   */
  restored(id: string, manifest: ManifestHead): void {
    const { cellsFolder, registry, destination, changes, recovery } = this.#parts
    cellsFolder.noteCell()
    const record = registry.find(id)
    const accountId = record === undefined ? manifest.account_id : record.accountId
    if (record?.deletedAt !== null) {
      try {
        this.#bringBack(id, record, manifest)
        this.#parts.catalogBackup?.cellCame(id)
      } catch (error) {
        // If the catalog's disk failed, the next start may still find the commit, and then needs the files.
        if (!isCellError(error, 'cell_quarantined')) this.removeLocal(id, accountId)
        throw error
      }
    }
    destination?.retention.restored(id, Date.parse(manifest.created_at))
    changes.reset(id, 'restored')
    recovery?.returned(id)
    this.restores.emit(id)
    this.filesReplaced.emit(id, accountId)
  }

  #bringBack(id: string, record: CellRecord | undefined, manifest: ManifestHead): void {
    const { registry, names } = this.#parts
    if (record === undefined) {
      const accountId = manifest.account_id
      registry.insert({
        id,
        accountId,
        name: names.forReturning({ id, accountId, name: manifest.name }),
        createdAt: Date.parse(manifest.cell_created_at),
        durability: manifest.durability,
      })
      return
    }
    registry.undelete(record, names.forReturning(record))
  }
}

interface PurgeParts {
  durably<T>(change: () => T): Promise<T>
  destination: Pick<BackupDestination, 'work' | 'retention' | 'settled'> | undefined
  registry: CellRegistry
  verifications: Pick<VerificationTable, 'remove'> | undefined
  settings: { log: Log }
}

/** @throws as `CellDirectory.purgeCell` */
export async function purgeDeleted(parts: PurgeParts, id: string, options: CallOptions): Promise<PurgedCell> {
  const {
    destination,
    registry,
    verifications,
    settings: { log },
  } = parts
  checkOptions(options, CALL)
  if (destination === undefined) throw objectStoreNotConfigured()
  const record = registry.find(id)
  if (record === undefined) throw cellNotFound()
  if (record.deletedAt === null) {
    const message = 'The cell exists. Only what is left of a deleted cell can be purged.'
    throw new CellError('invalid_request', message, { field: 'id' })
  }
  const { work, retention } = destination
  const removed = await work.purge(id, async () => {
    // A backup that was cut before the deletion may be on its way. None can begin now.
    await destination.settled(id, options)
    const gone = await retention.purge(id, options)
    // Damage that was found after the deletion.
    verifications?.remove(id)
    // Its id stays known as that of a deleted cell.
    await parts.durably(() => registry.eraseName(id))
    return gone
  })
  log.info({ cellId: id, ...removed }, 'what was left of a deleted cell is removed')
  return { id, ...removed }
}
