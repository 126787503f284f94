import type { Clock } from '../../base/clock.ts'
import type { CellPaths } from '../../base/files/store-paths.ts'
import type { Limits } from '../../base/options/limits.ts'
import { CellError, isCellError } from '../../errors.ts'
import { DATABASE_MEMBER, type ManifestHead } from '../archive/manifest.ts'
import type { ObjectReader } from '../archive/object-reader.ts'
import type { ObjectStore } from '../object-store/object-store.ts'
import type { RestoreOptions, RestoreResult } from '../versions/backup-types.ts'
import { backupNotFound, parseVersion, type RestoredMark } from '../versions/object-keys.ts'
import type { Stamps } from '../versions/stamps.ts'
import { isUnusable, type VersionIndex } from '../versions/version-index.ts'
import type { PreparedStates, TakenState } from './build/prepared-states.ts'
import { buildDatabase } from './build/restore-build.ts'
import { proveCell } from './build/restore-database.ts'
import { ShippedLog } from './build/shipped-log.ts'
import type { RestoredNames } from './install/cell-installer.ts'
import { discardRestored, isSwitchBegun } from './install/restore-install.ts'
import {
  type CellContents,
  currentState,
  isTriedOnly,
  lastName,
  type MarkedCell,
  type NewMark,
  newMark,
  removeMarks,
  storeMark,
} from './install/restored-mark.ts'
import {
  type FinderParts,
  type FoundTarget,
  findTarget,
  type RequestedRestore,
} from './target/find-target.ts'
import { timeOf } from './target/known-history.ts'
import type { RestoreTarget, RestoreTargets } from './target/restore-target.ts'
import type { RestoreThreads } from './threads/restore-threads.ts'

export interface CellRestorerParts extends FinderParts, BuilderParts {
  /** Of cells that are about to come to this node. */
  prepared: PreparedStates
  objectStore: ObjectStore
  clock: Clock
  paths(cellId: string): CellPaths
}

interface CellRestore extends RequestedRestore, BuildOptions, MarkedCell {
  /** Undefined without a cluster. */
  stamps?: Stamps | undefined
  /** The cell is lost, and comes back as it last was; otherwise, and without a version or time, its newest backup is restored. */
  recovers: boolean
  /** Called with the bytes of the database once it is proven; may throw. */
  checkBuilt(bytes: number): Promise<void>
  /** Ends what is shipped of the cell. */
  dropHistory(): Promise<void>
  /** Switches the cell to the database in `incoming.db`. @param result the answer of the restore, which stands from then on */
  install(manifest: ManifestHead, names: RestoredNames, result: RestoreResult): Promise<void>
  /** The cell stays as it was, but its history has ended, and these marks of its restore may be stored. */
  refused(marks: readonly RestoredMark[]): void
}

/** Restores cells from their backups. The caller runs no other backup or restore of the same cell meanwhile. */
export class CellRestorer {
  readonly #parts: CellRestorerParts

  constructor(parts: CellRestorerParts) {
    this.#parts = parts
  }

  /** The cell stays unchanged until the new database is proven. Then the switch is atomic (restore-install.ts). */
  async run(cellId: string, restore: CellRestore): Promise<RestoreResult> {
    const { clock, objectStore } = this.#parts
    const { signal } = restore
    const started = clock.monotonic()
    signal?.throwIfAborted()
    const found = await findTarget(this.#parts, cellId, restore)
    const { target, targets, contents } = found
    const { version, kind } = target.manifest
    const paths = this.#parts.paths(cellId)
    const sizeBytes = await this.#build(cellId, found, paths, restore)
    let marked: NewMark | undefined
    let isEnded = false
    try {
      signal?.throwIfAborted()
      await restore.checkBuilt(sizeBytes)
      // Also what was committed while the database was built: it stays restorable. What is committed during this PUT does not.
      const isStored = await this.#ship(cellId, restore)
      isEnded = true
      await this.#endHistory(cellId, restore)
      const replaced = await this.#replaced(targets, restore)
      // After an earlier try that was killed here it is not all stored: its history had ended, and nobody knows what came since.
      const replacedAt = isStored && replaced?.manifest.log !== undefined ? replaced.time : null
      const isLast = restore.recovers || (await this.#isLast(target, targets, contents, restore))
      if (!isLast) marked = this.#newMark(cellId, target, contents, restore)
      if (marked !== undefined) await storeMark(objectStore, marked, restore, { signal })
      signal?.throwIfAborted()
      const newest = contents.versions[0]?.version ?? version
      const last = marked?.name ?? lastName(cellId, contents) ?? newest
      const isNewest = version === newest && target.wals.length === 0
      // What follows is later than the state that it replaces, which stays restorable, and than the restore itself.
      const now = restore.recovers ? 0 : clock.now()
      const line = Math.max(target.time, replaced?.time ?? 0, now) + 1
      const isUnmarked = marked === undefined && target.manifest.log !== undefined
      const soFar = (): RestoreResult => {
        const durationMs = clock.monotonic() - started
        return { version, kind, timestamp: target.time, replacedAt, sizeBytes, durationMs }
      }
      await restore.install(target.manifest, { isNewest, isUnmarked, last, line }, soFar())
      if (marked !== undefined) await removeMarks(objectStore, contents.marks)
      return soFar()
    } catch (error) {
      // The mark says what did not happen. Its PUT may have failed, and stored it.
      const isUnchanged = !isSwitchBegun(paths)
      discardRestored(paths)
      if (isEnded && isUnchanged) await this.#takeBack(marked, restore)
      throw error
    }
  }

  /** Goes on from what was prepared, if that is the beginning of the target. */
  async #build(cellId: string, found: FoundTarget, paths: CellPaths, restore: CellRestore): Promise<number> {
    const { prepared } = this.#parts
    const taken = prepared.find(cellId, found.target)
    try {
      if (taken !== undefined) return await buildTarget(this.#parts, cellId, found, paths, restore, taken)
    } catch (error) {
      // Whatever is wrong with it, or with the log after it: the build from the version shows which.
      if (restore.signal?.aborted === true) throw error
    } finally {
      prepared.drop(cellId)
    }
    return await buildTarget(this.#parts, cellId, found, paths, restore)
  }

  /** The restore is refused: what it has done outside of the cell does not count. */
  async #takeBack(marked: NewMark | undefined, { isLocal, refused }: CellRestore): Promise<void> {
    const marks = marked === undefined ? [] : await removeMarks(this.#parts.objectStore, [marked.mark])
    if (isLocal || marks.length > 0) refused(marks)
  }

  /** @throws what the object store does, unless the cell is lost: then there is nothing to ship */
  async #ship(cellId: string, { recovers, isLocal, accountId, signal }: CellRestore): Promise<boolean> {
    const { ship } = this.#parts
    return ship !== undefined && !recovers && isLocal && (await ship(cellId, { signal, accountId }))
  }

  /**
   * From here on nothing that the cell commits is shipped: it is replaced, and would contradict the restored state. What was
   * collected before may be on its way, and is stored once this returns.
   */
  async #endHistory(cellId: string, restore: CellRestore): Promise<void> {
    if (restore.recovers || !restore.isLocal) return
    await restore.dropHistory()
    await this.#ship(cellId, restore)
  }

  /** The state that the cell had last, if the object store has it. A lost cell may come back as an older one: a restore had replaced it. */
  async #replaced(targets: RestoreTargets, { recovers }: CellRestore): Promise<RestoreTarget | undefined> {
    if (recovers && !targets.isReplaced) return undefined
    try {
      return await (recovers ? targets.newest() : targets.last())
    } catch (error) {
      // Its newest state cannot be restored. The one that was asked for can.
      if (isUnusable(error)) return undefined
      throw error
    }
  }

  /** Whether a total loss brings this state back without a mark. */
  async #isLast(
    { manifest, wals }: RestoreTarget,
    targets: RestoreTargets,
    contents: CellContents,
    { timestamp, last }: CellRestore,
  ): Promise<boolean> {
    // One that failed may be stored late. It would be newer than this state, and is older than a mark.
    if (isTriedOnly(last, contents)) return false
    const state = currentState(contents)
    if (timestamp !== undefined || wals.length > 0 || state?.version !== manifest.version) return false
    if (!state.hasLog || manifest.log === undefined) return !state.hasLog || state.until === undefined
    const { wals: later, damage } = await targets.logAfter(manifest)
    return later.length === 0 && damage === undefined
  }

  #newMark(
    cellId: string,
    { manifest: { version }, wals, time }: RestoreTarget,
    contents: CellContents,
    { last, stamps }: CellRestore,
  ): NewMark {
    const at = wals.length === 0 ? undefined : time
    return newMark(this.#parts.clock, { version, at }, contents, { cellId, last, stamps })
  }
}

/** Builds states of cells that are about to come to this node. */
export class CellPreparer {
  readonly #parts: CellRestorerParts

  constructor(parts: CellRestorerParts) {
    this.#parts = parts
  }

  /** Builds the state that the cell has now, as far as that is stored. It is this node's cell only later, or never. */
  async run(cellId: string, prepare: RequestedRestore & BuildOptions): Promise<void> {
    const { prepared } = this.#parts
    const found = await findTarget(this.#parts, cellId, { ...prepare, recovers: true })
    prepared.drop(cellId)
    try {
      await buildTarget(this.#parts, cellId, found, prepared.pathsOf(cellId), prepare)
    } catch (error) {
      prepared.remove(cellId)
      throw error
    }
    prepared.add(cellId, found.target)
  }
}

interface CellBranch extends RequestedRestore, BuildOptions {}

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

interface BuilderParts {
  reader: ObjectReader
  storeId: string
  index: VersionIndex
  threads: RestoreThreads
  limits: Limits
}

interface BuildOptions extends Pick<RestoreOptions, 'signal' | 'onProgress'> {
  /** Waits until so many stored bytes may be read. */
  willMove(bytes: number): Promise<void>
}

/**
 * Builds a state of the cell `source` as `incoming.db` at the paths, and proves it. If that fails, the file is removed.
 *
 * @returns the size of the database in bytes
 */
async function buildTarget(
  { reader, storeId, index, threads, limits }: BuilderParts,
  source: string,
  { target: { manifest, wals, log }, listing }: FoundTarget,
  paths: CellPaths,
  { signal, onProgress, willMove }: BuildOptions,
  taken?: TakenState,
): Promise<number> {
  const [applied, rest] = [wals.slice(0, taken?.wals ?? 0), wals.slice(taken?.wals ?? 0)]
  const since = applied.at(-1)?.commits.at(-1)?.[1] ?? timeOf(manifest)
  const shipped = rest.length === 0 ? undefined : new ShippedLog(log, rest, since, { signal })
  const expected = { storeId, cellId: source, limits }
  const sizeBytes = await buildDatabase(reader, manifest, expected, paths, threads, {
    signal,
    onProgress: (bytes, total) => onProgress?.({ phase: 'download', bytes, total }),
    willMove,
    onDamage: (version) => index.proven(version, listing, false),
    log: shipped,
    prepared: taken,
  })
  for (const version of [...manifest.chain, manifest.version]) index.proven(version, listing, true)
  try {
    proveCell(paths.restoreTarget, DATABASE_MEMBER)
  } catch (error) {
    discardRestored(paths)
    throw error
  }
  return sizeBytes
}
