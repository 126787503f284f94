import type { Clock } from '../../../base/clock.ts'
import type { CellDatabase } from '../../../engine/cell-database.ts'
import { assertCell } from '../../../engine/reserved-schema.ts'
import type { ChangeTracker, PendingCut } from '../change-tracker.ts'
import type { ChangeTrackers } from '../change-trackers.ts'
import type { BaseCut, BaseStart, CellCuts, Cut, IncrementalCut, StoredBackup } from './cell-cuts.ts'

/** How far the backups of a cell have come. */
export interface KnownVersions {
  /** The versions that an incremental would continue, oldest first; null if the next backup is a base. */
  chain: string[] | null
  /** The newest version, stored or only tried. */
  last: string | null
}

/** A cell that stays open until `unpin` is called. */
export interface PinnedCell {
  database: CellDatabase
  unpin(): void
}

/**
 * Cuts the cells of this process for the archiver, which may be in another. The cell is open only during each call. If
 * this process ends between two calls, another one can take the next: the row of the cell has what it needs.
 */
export class CellCutter {
  readonly #trackers: ChangeTrackers
  readonly #clock: Clock
  readonly #pin: (cellId: string) => PinnedCell
  /** Of the cells under backup: only the tracker of the cut knows whether the cell has changed since. */
  readonly #underBackup = new Map<string, ChangeTracker>()

  constructor(trackers: ChangeTrackers, clock: Clock, pin: (cellId: string) => PinnedCell) {
    this.#trackers = trackers
    this.#clock = clock
    this.#pin = pin
  }

  begin(cellId: string): KnownVersions {
    return knownVersions(this.#tracker(cellId))
  }

  /** A version of the chain is missing in the object store. */
  dropChain(cellId: string): void {
    this.#tracker(cellId).dropChain()
  }

  /** Uses up the time of a version that another state of the store made. */
  claimVersion(cellId: string, version: string): void {
    this.#tracker(cellId).claimVersion(version)
  }

  beginBase(cellId: string, beginsHistory: boolean): Promise<BaseStart> {
    return this.#cut(cellId, (cuts) => cuts.beginBase(beginsHistory))
  }

  endBase(cellId: string, id: string, version: string): Promise<BaseCut> {
    return this.#cut(cellId, (cuts) => cuts.endBase(id, version))
  }

  cutIncremental(cellId: string, version: string, versionsMax: number): Promise<IncrementalCut | undefined> {
    return this.#cut(cellId, (cuts) => cuts.cutIncremental(version, versionsMax))
  }

  stored(cellId: string, backup: StoredBackup): void {
    this.#tracker(cellId).stored(backup)
  }

  failed(cellId: string): void {
    this.#tracker(cellId).failed()
  }

  end(cellId: string): void {
    if (this.#underBackup.delete(cellId)) this.#trackers.release(cellId)
  }

  async #cut<T>(cellId: string, cut: (cuts: CellCuts) => Promise<T>): Promise<T> {
    for (;;) {
      const { database, unpin } = this.#pin(cellId)
      unpin()
      // Inside a transaction no log can be kept, and SQLite does not tell where it ends. Meanwhile the cell may be closed.
      const done = await database.holds.between(async () => {
        if (!database.open) return undefined
        const pinned = this.#pin(cellId)
        try {
          assertCell(database)
          return { value: await cut(new OpenCellCuts(database, this.#tracker(cellId), this.#clock)) }
        } finally {
          pinned.unpin()
        }
      })
      if (done !== undefined) return done.value
    }
  }

  #tracker(cellId: string): ChangeTracker {
    let tracker = this.#underBackup.get(cellId)
    if (tracker === undefined) {
      this.#trackers.acquire(cellId)
      tracker = this.#trackers.get(cellId)
      this.#underBackup.set(cellId, tracker)
    }
    return tracker
  }
}

/** The arguments of a step, beyond the cell. */
export type CutArguments<Step extends keyof CellCutter> =
  Parameters<CellCutter[Step]> extends [string, ...infer Args] ? Args : never

/** A step of a cell's backup, as plain data. */
export type CutCall = {
  [Step in keyof CellCutter]: { method: Step; args: CutArguments<Step> }
}[keyof CellCutter]

export function runCut(cutter: CellCutter, cellId: string, { method, args }: CutCall): unknown {
  const step = cutter[method] as (cellId: string, ...args: unknown[]) => unknown
  return step.call(cutter, cellId, ...args)
}

export function knownVersions({ progress }: ChangeTracker): KnownVersions {
  return { chain: progress.chain && [...progress.chain.versions], last: progress.lastVersion }
}

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
