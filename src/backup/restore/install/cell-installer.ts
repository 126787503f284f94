import type { Clock } from '../../../base/clock.ts'
import { exists } from '../../../base/files/durable-files.ts'
import type { CellPaths } from '../../../base/files/store-paths.ts'
import type { BackupProgress } from '../../changes/backup-progress.ts'
import type { ChangeTrackers } from '../../changes/change-trackers.ts'
import type { BackupProgressTable } from '../../changes/progress-table.ts'
import { finishRestore, installRestored } from './restore-install.ts'

export interface CellInstallerParts {
  trackers: ChangeTrackers
  progress: BackupProgressTable
  clock: Clock
  paths(cellId: string): CellPaths
  isOpen(cellId: string): boolean
  /**
   * Closes the cell, calls `install`, and allows the cell to open again; nothing else runs in between. A damaged file
   * that can't be closed properly is replaced too.
   */
  replace(cellId: string, install: () => void): void
}

/** What the object store has of a restored cell. */
export interface RestoredNames {
  /** The cell's newest version holds its state. */
  isNewest: boolean
  /** No mark says that the history of the version has ended: later moments of the cell would be taken for its state. */
  isUnmarked?: boolean | undefined
  /** The last name that a version or a mark has: the next version gets a later one. */
  last: string
  /** The newest time that is known of the cell, in epoch milliseconds: its line of time goes on from there. */
  line: number
}

/** What of a cell's row comes from its restore. */
interface RestoredRow extends Pick<BackupProgress, 'line' | 'storedTo' | 'repeats'> {
  last: string
}

export interface InstallOptions extends RestoredNames {
  /** The version that the cell is restored to. */
  version: string
  /** The process that had the cell ended during an earlier try, which may have done the switch. */
  isRepeat?: boolean | undefined
}

/** Switches cells of this process to restored databases. What builds them may be another process. */
export class CellInstaller {
  readonly #parts: CellInstallerParts
  #building: ReadonlySet<string> = new Set()

  constructor(parts: CellInstallerParts) {
    this.#parts = parts
  }

  /** The cells whose `incoming.db` is being built: for all others, such a file is the left-over of a crash. */
  set building(cellIds: Iterable<string>) {
    this.#building = new Set(cellIds)
  }

  /** Call it before a cell is opened. */
  beforeOpen(cellId: string): void {
    finishRestore(this.#parts.paths(cellId), { building: this.#building.has(cellId) })
  }

  /** A build begins: completes a switch that a crash has interrupted. */
  begin(cellId: string): void {
    this.building = [...this.#building, cellId]
    if (!this.#parts.isOpen(cellId)) this.beforeOpen(cellId)
  }

  end(cellId: string): void {
    this.building = [...this.#building].filter((each) => each !== cellId)
  }

  /**
   * A mark in the object store says that the cell is restored: until the switch, the old cell counts as changed. Nothing that
   * it commits after this is shipped: that would contradict the mark.
   */
  noteMark(cellId: string, name: string): void {
    this.#parts.trackers.use(cellId, (tracker) => {
      tracker.setChanged()
      tracker.dropHistory()
      tracker.claimVersion(name)
    })
    // After a power loss the old row would let its history go on.
    this.#parts.progress.sync()
  }

  /** The newest version that this machine knows, stored or only tried. */
  lastVersion(cellId: string): string | null {
    return this.#parts.trackers.use(cellId, ({ progress }) => progress.lastVersion)
  }

  install(
    cellId: string,
    { isNewest, isUnmarked = false, last, line, version, isRepeat = false }: InstallOptions,
  ): void {
    const { paths, replace, trackers } = this.#parts
    const files = paths(cellId)
    // The earlier try did all of it. The cell may have changed since, so that its progress must stay.
    if (isRepeat && !exists(files.restoreIntent) && !exists(files.restoreTarget)) return
    const isDecided = isRepeat && exists(files.restoreIntent)
    if (!isDecided && !exists(files.restoreTarget)) throw new Error('There is no restored database.')
    // Before the switch, so that the next backup is a base even if the process ends right after the switch.
    const { storedTo } = this.#parts.progress.find(cellId)
    // What the old cell has committed and is in no version had its moments: the next version ends the history before them.
    const changed = !isNewest || (isUnmarked && trackers.use(cellId, ({ isChanged }) => isChanged))
    const repeats = version
    this.#resetProgress(cellId, { last, line, storedTo, repeats }, true)
    replace(cellId, () => (isDecided ? finishRestore(files) : installRestored(files)))
    // After a restore to another state the cell counts as changed: the newest backup does not hold it.
    const isNoted = this.#tryToReset(
      cellId,
      { last, line, storedTo: this.#parts.clock.now(), repeats },
      changed,
    )
    if (changed || !isNoted) trackers.changed.emit(cellId)
  }

  /** The restore is done, whatever fails now, and those who use the cell have to hear of it. The row from before the switch says that it has changed. */
  #tryToReset(cellId: string, ...row: [RestoredRow, boolean]): boolean {
    try {
      this.#resetProgress(cellId, ...row)
      return true
    } catch {
      // On a full disk, for example.
      return false
    }
  }

  /** After a restore the next backup is a base. What the cell has then comes from the object store. */
  #resetProgress(
    cellId: string,
    { last: lastVersion, line, storedTo, repeats }: RestoredRow,
    changed: boolean,
  ): void {
    const { clock, trackers, progress } = this.#parts
    const now = clock.now()
    const known = trackers.use(cellId, ({ history }) => history.line)
    trackers.detach(cellId)
    progress.save({
      cellId,
      chain: null,
      base: null,
      history: null,
      line: Math.max(line, known),
      lastVersion,
      dirty: changed,
      dirtySinceSnapshot: changed,
      lastBackupAt: now,
      lastSnapshotAt: now,
      changedAt: changed ? now : null,
      storedTo,
      repeats,
    })
  }
}
