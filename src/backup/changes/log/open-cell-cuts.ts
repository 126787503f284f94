import type { Clock } from '../../../base/clock.ts'
import type { CellDatabase } from '../../../engine/cell-database.ts'
import type { ChangeTracker, PendingCut } from '../change-tracker.ts'
import type { BaseCut, BaseStart, CellCuts, Cut, IncrementalCut, StoredBackup } from './cell-cuts.ts'

/** Cuts a cell that is open in this process. */
export class OpenCellCuts implements CellCuts {
  readonly #database: CellDatabase
  readonly #tracker: ChangeTracker
  readonly #clock: Clock

  constructor(database: CellDatabase, tracker: ChangeTracker, clock: Clock) {
    this.#database = database
    this.#tracker = tracker
    this.#clock = clock
  }

  /** @param beginsHistory of a new cell, its database as it was made is wanted */
  async beginBase(beginsHistory: boolean): Promise<BaseStart> {
    const origin = beginsHistory ? this.#tracker.beginOrigin() : undefined
    if (origin !== undefined) {
      const isOrigin = origin.path === this.#database.path ? 'live' : 'kept'
      return { id: origin.id, databasePath: origin.path, size: origin.size, isOrigin }
    }
    const { id, database } = this.#tracker.beginBase(this.#database)
    return { id, databasePath: this.#database.path, size: database.size }
  }

  async endBase(id: string, version: string): Promise<BaseCut> {
    const origin = this.#tracker.endOrigin(this.#database, id, version)
    if (origin !== undefined)
      return { kind: 'base', id, ...this.#cut(origin), cutAt: origin.at, repeats: origin.repeats }
    return { kind: 'base', id, ...this.#cut(this.#tracker.endBase(this.#database, id, version)) }
  }

  async cutIncremental(version: string, versionsMax: number): Promise<IncrementalCut | undefined> {
    const pending = this.#tracker.cutIncremental(this.#database, version, versionsMax)
    return pending && { kind: 'incremental', chain: pending.chain, ...this.#cut(pending) }
  }

  async stored(backup: StoredBackup): Promise<void> {
    this.#tracker.stored(backup)
  }

  async failed(): Promise<void> {
    this.#tracker.failed()
  }

  #cut({ segments, log }: PendingCut): Cut {
    const sqliteVersion = this.#database.prepare('SELECT sqlite_version()').pluck().get() as string
    const repeats = this.#tracker.progress.repeats ?? undefined
    return { cutAt: this.#clock.now(), sqliteVersion, segments, log, repeats }
  }
}
