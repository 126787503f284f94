import type { ManifestHead } from '../../backup/archive/manifest.ts'
import type {
  BackupStart,
  CellPort,
  KnownCell,
  RestoredCell,
  RestoreStart,
} from '../../backup/archiver/cell-port.ts'
import type { BaseReason } from '../../backup/changes/base-reason.ts'
import type { BaseStart } from '../../backup/changes/log/cell-cuts.ts'
import { type CutCall, runCut } from '../../backup/changes/log/cell-cutter.ts'
import {
  type CollectedLook,
  type CollectLimits,
  lookOf,
  type ShippedPlace,
  withAccounts,
} from '../../backup/changes/log/cell-log.ts'
import type { UnshippedSearch } from '../../backup/changes/unshipped-search.ts'
import {
  type DatabaseReader,
  FileDatabaseReader,
  OpenDatabaseReader,
} from '../../backup/create/database-reader.ts'
import type { Stamps } from '../../backup/versions/stamps.ts'
import type { RestorePermits } from '../../backup/versions/work-in-progress.ts'
import type { Tenure } from '../../catalog/assignment/assignment.ts'
import { type CellRecord, cellNotFound } from '../../catalog/cell-registry.ts'
import type { GivenStamps } from '../residence/given-stamps.ts'
import type { BuildNotes } from '../start/left-files.ts'
import type { ArchivedCells, LocalCells } from './local-cells.ts'

export interface CellsInProcessParts {
  local: LocalCells
  /** A cell's record in the catalog; undefined for an unknown id. */
  record(id: string): CellRecord | undefined
  /** As in `CellPort`. */
  isDeleted(id: string, committedAt: number): boolean
  /** Undefined without a cluster, as is the next one. */
  tenuresOf(id: string): Tenure[] | undefined
  stampsOf(id: string): Stamps | undefined
  /** Those that are given. */
  stamps: GivenStamps
  /** Records a restored cell in the catalog, also if it was unknown or deleted there. */
  restored(id: string, manifest: ManifestHead): Promise<void>
  /** As in `CellPort`. */
  needsBase(id: string, reason: BaseReason): Promise<void>
  /** As in `CellPort`. */
  logsLeft(): string[]
  search: UnshippedSearch
  permits: RestorePermits
  /** Of the restores that build a database. */
  notes: BuildNotes
}

/** The archiver's way to the cells that this process opens: direct calls. */
export class CellsInProcess implements CellPort {
  readonly #parts: CellsInProcessParts
  readonly #archived: ArchivedCells

  #looks = 0

  constructor(parts: CellsInProcessParts, archived: ArchivedCells) {
    this.#parts = parts
    this.#archived = archived
  }

  async beginBackup(cellId: string): Promise<BackupStart> {
    const { local } = this.#parts
    const record = local.record(cellId)
    const stamps = this.#parts.stampsOf(cellId)
    return { record, sizeBytes: local.sizeBytes(cellId), stamps, ...this.#archived.cutter.begin(cellId) }
  }

  async cut(cellId: string, call: CutCall): Promise<unknown> {
    this.#parts.stamps.noteCut(cellId, call)
    return await runCut(this.#archived.cutter, cellId, call)
  }

  /** Keeps the cell open until the reader is closed: this process must not open its file a second time (invariant 4). */
  async openReader(cellId: string, { isOrigin, databasePath }: BaseStart): Promise<DatabaseReader> {
    if (isOrigin === 'kept') return await FileDatabaseReader.open(databasePath)
    const { database, unpin } = this.#parts.local.pin(cellId)
    const reader = new OpenDatabaseReader(database)
    return {
      read: (bytes, offset) => reader.read(bytes, offset),
      close: async () => unpin(),
    }
  }

  async findCell(cellId: string): Promise<KnownCell> {
    const { local, record, tenuresOf } = this.#parts
    return { record: record(cellId), isLocal: local.isLocal(cellId), tenures: tenuresOf(cellId) }
  }

  async beginRestore(cellId: string): Promise<RestoreStart> {
    const { installer } = this.#archived
    this.#parts.notes.add(cellId)
    installer.begin(cellId)
    const stamps = this.#parts.stampsOf(cellId)
    return { ...(await this.findCell(cellId)), last: installer.lastVersion(cellId), stamps }
  }

  async checkBuilt(cellId: string, bytes: number): Promise<void> {
    this.#parts.permits.checkBuilt(cellId, bytes)
  }

  async noteMark(cellId: string, name: string, existed: boolean): Promise<void> {
    this.#assertExists(cellId, existed)
    this.#parts.stamps.note(cellId, name)
    this.#archived.installer.noteMark(cellId, name)
  }

  async install(
    cellId: string,
    { manifest, isNewest, isUnmarked, last, line, existed }: RestoredCell,
  ): Promise<void> {
    const { restored } = this.#parts
    this.#assertExists(cellId, existed)
    this.#archived.installer.install(cellId, {
      ...{ isNewest, isUnmarked, last, line },
      version: manifest.version,
    })
    await restored(cellId, manifest)
  }

  async endRestore(cellId: string): Promise<void> {
    this.#archived.installer.end(cellId)
    this.#parts.notes.remove(cellId)
  }

  async collectLogs(limits: CollectLimits): Promise<CollectedLook> {
    const { search, record } = this.#parts
    const look = ++this.#looks
    const collect = async () => lookOf(await this.#archived.logs.collect(limits), look)
    const collected = await search.collect(limits, collect)
    return withAccounts(collected, record)
  }

  /** All cells are here: a look waits for nobody. */
  async hurryLook(): Promise<void> {}

  async logsShipped(places: ShippedPlace[]): Promise<void> {
    this.#archived.logs.shipped(places)
  }

  async dropHistory(cellId: string): Promise<void> {
    this.#archived.logs.dropHistory(cellId)
  }

  async needsBase(cellId: string, reason: BaseReason): Promise<void> {
    await this.#parts.needsBase(cellId, reason)
  }

  async logsLeft(): Promise<string[]> {
    return this.#parts.logsLeft()
  }

  async isDeleted(cellId: string, committedAt: number): Promise<boolean> {
    return this.#parts.isDeleted(cellId, committedAt)
  }

  /** @param existed the cell existed when its restore began */
  #assertExists(cellId: string, existed: boolean): void {
    if (existed && this.#parts.record(cellId)?.deletedAt !== null) throw cellNotFound()
  }
}
