import { unlessAborted } from '../../../base/async/unless-aborted.ts'
import type { Clock } from '../../../base/clock.ts'
import type { Log } from '../../../base/log.ts'
import { checkOptions, type Given } from '../../../base/options/option-shapes.ts'
import { isClosedConnection, isSqliteError } from '../../../engine/sqlite-errors.ts'
import { toBackupError } from '../../archive/backup-errors.ts'
import type { BackupProgressTable } from '../../changes/progress-table.ts'
import {
  CALL,
  type CallOptions,
  type ObjectEntry,
  type ObjectStore,
} from '../../object-store/object-store.ts'
import type { ObjectStoreClaim } from '../identity/object-store-claim.ts'
import { backupNotFound, cellPrefix } from '../object-keys.ts'
import type { StoredVersion } from '../stored-manifest.ts'
import type { VersionFindings } from '../version-findings.ts'
import type { VersionIndex } from '../version-index.ts'
import type { WorkInProgress } from '../work-in-progress.ts'
import { type BackupSummary, PRUNE, type PruneOptions, type PruneResult, Pruner } from './pruner.ts'
import { listNoted, type Proof, pinOf, RetentionNotes } from './retention-notes.ts'
import { PLAN_DEFAULT, parsePlan, TENANT_PLAN_DEFAULT } from './retention-plan.ts'
import type { RetentionTable } from './retention-table.ts'

/** A look at a cell's versions costs a listing. Nothing is lost if a version goes some hours later. */
const PRUNE_EVERY_MS = 6 * 3_600_000

export interface RetentionParts {
  objectStore: ObjectStore
  /** The catalog's versions have a plan of their own. */
  storeId: string
  /** Knows the first catalog, which always stays. */
  claim: ObjectStoreClaim
  /** Plans of the store; see docs/promises.md for the defaults. */
  keep?: string | undefined
  keepTenant?: string | undefined
  /** How far back moments can be restored: what they need stays, whatever the plans say. */
  historyMs: number
  /** False: nothing is removed unless {@link Retention.prune} is called. */
  prune?: boolean | undefined
  index: VersionIndex
  table: RetentionTable
  progress: BackupProgressTable
  work: WorkInProgress
  /** Resolves once every backup and restore of the cell that had begun has ended in the archiver, which removes versions after a backup. */
  settled(cellId: string, options: CallOptions): Promise<void>
  findings: VersionFindings
  clock: Clock
  log: Log
}

/** Which versions of a cell stay in the object store: what a person, a proof and the plans say (docs/decisions/0013). */
export class Retention {
  readonly #parts: RetentionParts
  readonly #notes: RetentionNotes
  readonly #plans: { keep: string; keepTenant: string }
  readonly #pruner: Pruner

  /** @internal Use `store.retention`. */
  constructor(parts: RetentionParts) {
    this.#parts = parts
    this.#notes = new RetentionNotes(parts.objectStore)
    this.#plans = { keep: parts.keep ?? PLAN_DEFAULT, keepTenant: parts.keepTenant ?? TENANT_PLAN_DEFAULT }
    this.#pruner = new Pruner({ ...parts, ...this.#plans, notes: this.#notes })
  }

  /** Call when a backup is stored. Never throws: the backup is stored already, and a later one prunes again. @internal */
  async backupStored(cellId: string, version: string, at: number, options: CallOptions = {}): Promise<void> {
    const { table, log } = this.#parts
    try {
      table.noteStored(cellId, at)
      this.#pruner.noteStored(cellId, version)
      if (this.#isDue(cellId)) await this.prune(cellId, { signal: options.signal })
    } catch (err) {
      // Its caller has given it up, as a store does that closes: nothing has failed.
      if (options.signal?.aborted === true) return
      log.warn({ cellId, err }, 'could not remove old backups; a later backup tries again')
    }
  }

  /**
   * Removes the versions that the plan no longer keeps and that were marked a day ago, and marks others.
   *
   * @throws `object_store_unavailable`, `object_store_error`, `backup_corrupt` for notes that cannot be read; `busy` during a
   * purge of the cell, as all that stores notes; `disk_full`
   */
  prune<O extends PruneOptions & Given<O, PruneOptions>>(cellId: string, options?: O): Promise<PruneResult>
  async prune(cellId: string, options: PruneOptions = {}): Promise<PruneResult> {
    checkOptions(options, PRUNE)
    return await remembered(this.#parts.work.note(cellId, () => this.#pruner.prune(cellId, options)))
  }

  /**
   * Keeps a version whatever its age. Waits for a backup or restore of the cell that is under way.
   *
   * @throws `invalid_version`, `backup_not_found`; `busy` if that takes too long
   */
  async pin(cellId: string, version: string, options: CallOptions = {}): Promise<void> {
    checkOptions(options, CALL)
    pinOf(cellId, version)
    await this.#parts.work.note(cellId, () => this.#pin(cellId, version, options))
  }

  /** The plan decides over the version again. @throws `invalid_version`, `backup_not_found` */
  async unpin(cellId: string, version: string, options: CallOptions = {}): Promise<void> {
    checkOptions(options, CALL)
    await this.#notes.unpin(cellId, version, options)
  }

  /** The cell's own plan, in place of the store's; undefined if it has none. */
  async ownPlan(cellId: string, options: CallOptions = {}): Promise<string | undefined> {
    checkOptions(options, CALL)
    const { notes } = await listNoted(this.#parts.index, cellId, options)
    return await this.#notes.readPlan(notes, options)
  }

  /** @param plan null: the store's plan holds again @throws `invalid_setting` */
  async setPlan(cellId: string, plan: string | null, options: CallOptions = {}): Promise<void> {
    checkOptions(options, CALL)
    if (plan !== null) parsePlan(plan)
    await this.#parts.work.note(cellId, async () => {
      const { notes } = await listNoted(this.#parts.index, cellId, options)
      await this.#notes.writePlan(cellId, notes, plan ?? undefined, this.#parts.clock.now(), options)
      await this.#endRemovals(cellId, options)
    })
  }

  /**
   * Records that a version was restored and found whole. Only what is older than the base of the version that was proven
   * last may be removed. Call it in order: a later call replaces an earlier one.
   *
   * @throws `backup_not_found` if a prune has removed it meanwhile
   * @internal
   */
  async recordProven(cellId: string, version: string, options: CallOptions = {}): Promise<void> {
    const record = async () => {
      const { clock, index, table } = this.#parts
      const { versions, notes } = await listNoted(index, cellId, options)
      // The cell was purged meanwhile.
      if (versions.length === 0) return
      const proof = { version, provenAt: clock.now() }
      await this.#notes.writeProof(cellId, notes, proof, options)
      // The newest one always stays.
      if (version !== versions[0]?.version) await this.#assertStays(cellId, version, options)
      table.noteProof(cellId, proof)
    }
    await remembered(this.#parts.work.note(cellId, record))
  }

  /** As far as this machine knows; asks nobody. */
  lastProven(cellId: string): Proof | undefined {
    return this.#parts.table.proof(cellId)
  }

  /** When a backup of the cell was last stored, as far as this machine knows, in epoch milliseconds; asks nobody. */
  lastStoredAt(cellId: string): number | undefined {
    return this.#parts.table.storedAt(cellId)
  }

  /**
   * Of stored versions of a cell, those that its account may have requested: all but those that this machine knows to be others'.
   *
   * @internal
   */
  maybeRequested(cellId: string, versions: readonly StoredVersion[]): StoredVersion[] {
    const known = new Map(this.#parts.table.facts(cellId).map((facts) => [facts.version, facts]))
    return versions.filter(({ version, sizeBytes }) => {
      const facts = known.get(version)
      return facts?.sizeBytes !== sizeBytes || facts.origin === 'tenant'
    })
  }

  /** How the backups of all cells stand, as far as this machine knows. Asks nobody. */
  summary(): BackupSummary {
    const { table, progress, storeId } = this.#parts
    const { cells: stored, oldestAt, newestAt } = table.storedCells(storeId)
    const known = { stored, oldestStoredAt: oldestAt, newestStoredAt: newestAt }
    return { ...this.#plans, ...known, ...progress.lag(storeId) }
  }

  /** A cell came back from a version: if this machine knows of no backup of it, this one is known now. Never throws: the cell is back. @internal */
  restored(cellId: string, createdAt: number): void {
    const { table } = this.#parts
    try {
      if (table.storedAt(cellId) === undefined) table.noteStored(cellId, createdAt)
    } catch {
      // On a full disk, for example. Its next backup is noted.
    }
  }

  /** Removes everything that the object store holds of a cell, and the local rows. Only for a cell that is deleted. @internal */
  async purge(cellId: string, { signal }: CallOptions = {}): Promise<PurgedObjects> {
    return await remembered(
      this.#parts.work.purgeNotes(cellId, () => this.#purge(cellId, { signal }), signal),
    )
  }

  /** Removes the local rows of a deleted cell. @internal */
  forget(cellId: string): void {
    this.#parts.table.remove(cellId)
  }

  async #pin(cellId: string, version: string, options: CallOptions): Promise<void> {
    const { objectStore, clock, work, settled } = this.#parts
    await this.#notes.pin(cellId, version, clock.now(), options)
    // What removes a version looks for its pin first, but may have done so before there was one.
    await unlessAborted(work.removed(cellId), options.signal)
    await settled(cellId, options)
    if ((await objectStore.head(version, options)) !== undefined) return
    await this.#notes.unpin(cellId, version, options)
    throw backupNotFound()
  }

  /** What prunes the cell has looked at its notes before: it removes nothing more. */
  async #endRemovals(cellId: string, options: CallOptions): Promise<void> {
    const { work, settled } = this.#parts
    await work.endRemovals(cellId, options.signal)
    await settled(cellId, options)
  }

  async #assertStays(cellId: string, version: string, options: CallOptions): Promise<void> {
    await this.#endRemovals(cellId, options)
    if ((await this.#parts.objectStore.head(version, options)) === undefined) throw backupNotFound()
  }

  async #purge(cellId: string, { signal }: CallOptions): Promise<PurgedObjects> {
    const { objectStore, progress, findings, index, clock, log } = this.#parts
    const removed = await purgeObjects(objectStore, cellId, clock.now(), log, {
      signal,
      removed: (key) => index.forget(key),
    })
    progress.remove(cellId)
    findings.removeForeign(cellId)
    this.forget(cellId)
    return removed
  }

  #isDue(cellId: string): boolean {
    const { table, clock, prune = true } = this.#parts
    if (!prune) return false
    const now = clock.now()
    const last = table.prunedAt(cellId)
    // A new cell, or a new machine: there is time.
    if (last === undefined || last > now) table.notePruned(cellId, now)
    return last !== undefined && now - last >= PRUNE_EVERY_MS
  }
}

/** Some of it is remembered on this machine, whose disk can be full. @throws what its disk does, as `disk_full`; `store_closed` */
async function remembered<T>(work: Promise<T>): Promise<T> {
  return await work.catch((error) => {
    throw isSqliteError(error) || isClosedConnection(error) ? toBackupError(error) : error
  })
}

/** The clocks of this machine and of the object store may differ by as much. */
const CLOCK_SKEW_MS = 24 * 3_600_000

/** How much was removed. */
export interface PurgedObjects {
  objects: number
  bytes: number
}

interface PurgeOptions extends CallOptions {
  /** Called after each removal. */
  removed(key: string): void
}

/**
 * Removes every object under a cell's prefix, and ends its unfinished uploads. If it ends early, what is left restores, and a
 * repeat removes the rest.
 */
async function purgeObjects(
  store: ObjectStore,
  cellId: string,
  now: number,
  log: Log,
  { signal, removed }: PurgeOptions,
): Promise<PurgedObjects> {
  const prefix = cellPrefix(cellId)
  // Some services cannot list uploads; the daily sweep has the same trouble there, and says so.
  await store.sweepUploads(prefix, now + CLOCK_SKEW_MS, { signal }).catch((err) => {
    if (signal?.aborted) throw err
    log.warn({ cellId, err }, 'could not look for unfinished uploads of a cell that is purged')
  })
  const entries: ObjectEntry[] = []
  for await (const entry of store.list(prefix, { signal })) entries.push(entry)
  // From the end: incrementals go before their bases.
  for (const { key } of entries.toReversed()) {
    await store.delete(key, { signal })
    removed(key)
  }
  return { objects: entries.length, bytes: entries.reduce((sum, { size }) => sum + size, 0) }
}
