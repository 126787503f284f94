import type { Tenure } from '../../../catalog/assignment/assignment.ts'
import { CellError, isCellError } from '../../../errors.ts'
import type { ManifestHead } from '../../archive/manifest.ts'
import type { CallOptions } from '../../object-store/object-store.ts'
import {
  type CellLog,
  cutLog,
  type JoinedWal,
  type JoinOptions,
  joinLog,
} from '../../shipping/cell-pieces.ts'
import type { CellLogs, ReadableLog } from '../../shipping/stored/cell-logs.ts'
import { lastPiece } from '../../shipping/stored/last-piece.ts'
import { noBackup, parseVersion } from '../../versions/object-keys.ts'
import { type Listing, listingOf, type VersionIndex } from '../../versions/version-index.ts'
import { type CellContents, currentState } from '../install/restored-mark.ts'
import { goesOn, knownTo, lastCommit, placeOf, timeOf } from './known-history.ts'

/** Versions among which that of a history is looked for. */
const VERSIONS_LOOKED_AT = 16

/** What is asked for. */
export interface RequestedState {
  version: string | undefined
  /** Epoch milliseconds. */
  timestamp: number | undefined
  /** The state that the cell had last, as far as the object store knows. */
  recovers: boolean
  /** The cell on this machine may have committed what is in no version and no log object. */
  isBehind?: boolean | undefined
}

/** A state that can be restored: a version, and what was shipped after it. */
export interface RestoreTarget {
  manifest: ManifestHead
  wals: JoinedWal[]
  /** Where `wals` lie. */
  log: ReadableLog
  /** Epoch milliseconds: the last commit in `wals`; without any, the version's time. */
  time: number
}

export interface TargetParts {
  index: VersionIndex
  logs: CellLogs
}

export interface StoredCell {
  cellId: string
  contents: CellContents
  /**
   * When the cell was deleted, in epoch milliseconds; infinite if the catalog does not know it; undefined if it exists. What no
   * version holds of a deleted cell goes with the age of the log objects.
   */
  goneAt: number | undefined
  /** Undefined without a cluster. */
  tenures: readonly Tenure[] | undefined
}

/** Finds the versions and the log objects that hold a state of a cell. */
export class RestoreTargets {
  readonly #index: VersionIndex
  readonly #logs: CellLogs
  readonly #tenures: readonly Tenure[] | undefined
  readonly #cellId: string
  readonly #contents: CellContents
  readonly #listing: Listing
  readonly #goneAt: number | undefined
  readonly #options: CallOptions

  constructor(
    { index, logs }: TargetParts,
    { cellId, contents, goneAt, tenures }: StoredCell,
    options: CallOptions,
  ) {
    this.#index = index
    this.#logs = logs
    this.#tenures = tenures
    this.#cellId = cellId
    this.#contents = contents
    this.#goneAt = goneAt
    this.#listing = listingOf(contents.versions)
    this.#options = options
  }

  /** @throws `backup_not_found`, `backup_corrupt` */
  async find({ version, timestamp, recovers, isBehind = false }: RequestedState): Promise<RestoreTarget> {
    if (timestamp !== undefined) return await this.#at(timestamp, isBehind)
    if (recovers) return await this.last()
    // A deletion may have shipped the last state, and stored no version of it.
    if (version === undefined && this.#goneAt !== undefined) return await this.#current({ alsoAged: true })
    const manifest = version === undefined ? await this.latest() : await this.#manifest(version)
    return manifest ? this.#versionAlone(manifest) : await this.#current({ alsoAged: true })
  }

  /**
   * The newest version that holds what the cell has committed, but for those that were made only because of a restore, which hold
   * what somebody has gone back to, and for the empty one of its creation.
   *
   * @returns undefined if there is none
   */
  async latest(): Promise<ManifestHead | undefined> {
    for (const { version } of this.#contents.versions) {
      const manifest = await this.#manifest(version)
      if (manifest.repeats === undefined) return manifest
    }
    return undefined
  }

  /** The state that the cell had last, as far as the object store knows. */
  async last(): Promise<RestoreTarget> {
    return await this.#current({ alsoAged: false })
  }

  /** @param alsoAged what went with the age of the log is done without: otherwise it is refused */
  async #current({ alsoAged }: { alsoAged: boolean }): Promise<RestoreTarget> {
    const state = currentState(this.#contents)
    if (state === undefined) throw noBackup()
    const manifest = await this.#manifest(state.version)
    await this.#assertNoneNewer(manifest)
    if (!state.hasLog) return this.#versionAlone(manifest)
    const log = await this.#logOf(manifest, { until: state.until, horizon: state.until ?? this.#goneAt })
    const { wals, damage } = log
    const cut = cutLog(wals, state.until ?? Number.POSITIVE_INFINITY)
    const isReached = state.until !== undefined && lastCommit(wals, manifest) >= state.until
    const mayLack = isReached || (alsoAged && isCellError(damage, 'backup_not_found'))
    if (damage !== undefined && !mayLack) throw restorableUpTo(lastKnown(log, manifest), damage)
    return cut ? { ...this.#versionAlone(manifest), ...cut } : this.#versionAlone(manifest)
  }

  /** Whether a restore has replaced the newest state that is stored, and nothing is stored of what came after. */
  get isReplaced(): boolean {
    const state = currentState(this.#contents)
    return state !== undefined && !(state.hasLog && state.until === undefined)
  }

  /** The newest state that is stored, also if it is replaced. @throws as {@link last} */
  async newest(): Promise<RestoreTarget> {
    const [newest] = this.#contents.versions
    if (newest === undefined) throw noBackup()
    const manifest = await this.#manifest(newest.version)
    const { wals } = await this.logAfter(manifest)
    const cut = cutLog(wals, Number.POSITIVE_INFINITY)
    return cut ? { ...this.#versionAlone(manifest), ...cut } : this.#versionAlone(manifest)
  }

  /**
   * A listing that lacks the cell's newest versions would set the cell back, without a word. What was shipped after them shows
   * that there are some: a piece is only shipped once a version of its history is stored.
   */
  async #assertNoneNewer(manifest: ManifestHead): Promise<void> {
    const { log } = manifest
    if (log === undefined) return
    const shipped = this.#logs.of(manifest, this.#tenures)
    const refs = await shipped.after(log.after, this.#options)
    const { last: newest } = await lastPiece(shipped, this.#cellId, refs, this.#options)
    if (newest === undefined || newest.history === log.history) return
    // The last pieces of a history may be stored after the version with which the next one begins.
    for (const { version } of this.#contents.versions.slice(0, VERSIONS_LOOKED_AT))
      if ((await this.#restorable(version))?.log?.history === newest.history) return
    throw notListed(newest.key)
  }

  /** What was shipped after a version, up to the first object that can't be used. */
  async logAfter(manifest: ManifestHead): Promise<CellLog> {
    return await this.#logOf(manifest, {})
  }

  async #at(timestamp: number, isBehind: boolean): Promise<RestoreTarget> {
    const { manifest, newer } = await this.#newestAt(timestamp)
    if (timestamp === timeOf(manifest)) return this.#versionAlone(manifest)
    const mayGoOn = goesOn(manifest, newer, this.#contents.marks)
    const next = mayGoOn ? newer : undefined
    const isOpen = mayGoOn && newer === undefined && !isBehind
    const horizon = isOpen ? timestamp : newer ? timeOf(newer) : (this.#goneAt ?? Number.POSITIVE_INFINITY)
    const through = next && placeOf(next)
    const log = await this.#logOf(manifest, { until: timestamp, horizon, through })
    const known = isOpen ? lastKnown(log, manifest) : knownTo(log, manifest, next)
    if (timestamp > known) {
      if (log.damage !== undefined) throw restorableUpTo(known, log.damage)
      if (!isOpen || manifest.log === undefined) throw inGap(timestamp, known, newer && timeOf(newer))
    }
    const cut = cutLog(log.wals, timestamp)
    return cut ? { ...this.#versionAlone(manifest), ...cut } : this.#versionAlone(manifest)
  }

  /** The newest version of a time, and the next newer one of a later time. */
  async #newestAt(timestamp: number): Promise<{ manifest: ManifestHead; newer: ManifestHead | undefined }> {
    const { versions } = this.#contents
    const stamped = versions.findIndex(({ version }) => (parseVersion(version)?.time ?? 0) <= timestamp)
    let next = stamped === -1 ? versions.length : stamped
    let newer: ManifestHead | undefined
    // A stamp is no time: it lies before the cut, or ahead of the clock. Versions around it are compared by their times.
    for (; next > 0; next--) {
      const manifest = await this.#restorable(versions[next - 1]?.version)
      if (manifest === undefined) continue
      if (timeOf(manifest) <= timestamp) continue
      newer = manifest
      break
    }
    for (; next < versions.length; next++) {
      const manifest = await this.#restorable(versions[next]?.version)
      if (manifest === undefined) continue
      if (timeOf(manifest) <= timestamp) return { manifest, newer }
      newer = manifest
    }
    if (newer === undefined) throw noBackup()
    throw notThatOld(timestamp, timeOf(newer))
  }

  async #logOf(
    manifest: ManifestHead,
    bounds: Pick<JoinOptions, 'until' | 'horizon' | 'through'>,
  ): Promise<CellLog> {
    const { version, log } = manifest
    if (log === undefined) return { wals: [], damage: undefined, completeTo: undefined, objects: 0 }
    const isNewest = this.#goneAt === undefined && version === this.#contents.versions[0]?.version
    const after = { ...log, cellId: this.#cellId }
    return await joinLog(this.#logs.of(manifest, this.#tenures), after, {
      ...this.#options,
      ...bounds,
      isNewest,
    })
  }

  #versionAlone(manifest: ManifestHead): RestoreTarget {
    const log = this.#logs.of(manifest, this.#tenures)
    return { manifest, wals: [], log, time: timeOf(manifest) }
  }

  #manifest(version: string): Promise<ManifestHead> {
    return this.#index.manifest(version, this.#cellId, this.#listing, this.#options)
  }

  async #restorable(version: string | undefined): Promise<ManifestHead | undefined> {
    if (version === undefined) return undefined
    return await this.#index.restorable(version, this.#cellId, this.#listing, this.#options)
  }
}

/** The last moment of which is known that nothing was committed up to it but what is here. */
function lastKnown({ wals, completeTo }: CellLog, manifest: ManifestHead): number {
  const last = lastCommit(wals, manifest)
  return completeTo === undefined ? last : Math.max(last, completeTo - 1)
}

/** The error of a damaged log object, with the moment that can be restored without it. */
export function restorableUpTo(moment: number, { code, message, details, cause }: CellError): CellError {
  return new CellError(
    code,
    `${message} Up to ${iso(moment)} the cell can be restored: name this time, or an earlier one.`,
    { ...details, restorableTo: moment, cause },
  )
}

function notListed(key: string): CellError {
  return new CellError(
    'object_store_unavailable',
    `${key} continues a version of the cell that the object store does not list: it lags, or somebody has removed the version. Try again. If it stays so, name the version or the time to restore.`,
  )
}

function inGap(moment: number, before: number, after: number | undefined): CellError {
  const next = after === undefined ? '' : `, and the next one after it is ${iso(after)}`
  return new CellError(
    'backup_not_found',
    `What the cell was at ${iso(moment)} is not stored. The last moment before it that can be restored is ${iso(before)}${next}.`,
    { restorableTo: before },
  )
}

function notThatOld(moment: number, oldest: number): CellError {
  return new CellError(
    'backup_not_found',
    `The cell has no backup from before ${iso(moment)}. The first moment that can be restored is ${iso(oldest)}.`,
  )
}

function iso(time: number): string {
  return new Date(time).toISOString()
}
