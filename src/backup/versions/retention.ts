import type { Clock } from '../../base/clock.ts'
import type { Log } from '../../base/log.ts'
import type { BackupProgressTable } from '../changes/progress-table.ts'
import type { CallOptions, ObjectStore } from '../object-store/object-store.ts'
import { foreignVersions } from './foreign-versions.ts'
import { backupNotFound, compareVersions, parseNote, parseVersion } from './object-keys.ts'
import type { ObjectStoreClaim } from './object-store-claim.ts'
import type { BackupSummary, PrunedVersion, PruneOptions, PruneResult } from './prune-result.ts'
import { type PurgedObjects, purgeObjects } from './purge.ts'
import { type NoteKeys, type Proof, pinOf, RetentionNotes } from './retention-notes.ts'
import { CATALOG_PLAN, PLAN_DEFAULT, parsePlan, TENANT_PLAN_DEFAULT } from './retention-plan.ts'
import type { RetentionTable } from './retention-table.ts'
import { judgeVersions, type VersionFacts } from './retention-verdicts.ts'
import type { StoredVersion } from './stored-manifest.ts'
import { VersionFactsReader } from './version-facts.ts'
import type { VersionIndex } from './version-index.ts'

const HOUR_MS = 3_600_000
/** From its mark to the removal of a version: time to notice a clock or a plan that is wrong. */
const MARKED_MS = 24 * HOUR_MS
/** More than clocks are corrected by, and less than what would matter. */
const CLOCK_SET_MS = HOUR_MS
/** Bounds the object that holds the marks; the other versions are marked later. */
const MARKS_MAX = 100_000
/** A look at a cell's versions costs a listing. Nothing is lost if a version goes some hours later. */
const PRUNE_EVERY_MS = 6 * HOUR_MS

export interface RetentionParts {
  objectStore: ObjectStore
  /** The catalog's versions have a plan of their own. */
  storeId: string
  /** Knows the first catalog, which always stays. */
  claim: ObjectStoreClaim
  /** Plans of the store; see docs/promises.md for the defaults. */
  keep?: string | undefined
  keepTenant?: string | undefined
  /** False: nothing is removed unless {@link Retention.prune} is called. */
  prune?: boolean | undefined
  index: VersionIndex
  table: RetentionTable
  progress: BackupProgressTable
  clock: Clock
  log: Log
}

/** Which versions of a cell stay in the object store, and the removal of the others (docs/decisions/0013). */
export class Retention {
  readonly #parts: RetentionParts
  readonly #notes: RetentionNotes
  readonly #facts: VersionFactsReader
  /** The wall clock without the time that has passed: another one after the clock was set. */
  #clockZero: number
  /** By the monotonic clock. */
  #pausedUntil = Number.NEGATIVE_INFINITY

  /** @internal Use `store.retention`. */
  constructor(parts: RetentionParts) {
    this.#parts = parts
    this.#notes = new RetentionNotes(parts.objectStore)
    this.#facts = new VersionFactsReader(parts.index, parts.table)
    this.#clockZero = this.#currentZero()
    parsePlan(this.#storePlan)
    parsePlan(this.#tenantPlan)
  }

  /** Call when a backup is stored. Never throws: the backup is stored already, and a later one prunes again. */
  async backupStored(cellId: string, version: string, at: number, options: CallOptions = {}): Promise<void> {
    const { table, log } = this.#parts
    try {
      table.noteStored(cellId, at)
      this.#facts.noteStored(cellId, version)
      if (this.#isDue(cellId)) await this.prune(cellId, options)
    } catch (err) {
      log.warn({ cellId, err }, 'could not remove old backups; a later backup tries again')
    }
  }

  /**
   * Removes the versions that the plan no longer keeps and that were marked a day ago, and marks others.
   *
   * @throws `object_store_unavailable`, `object_store_error`, `backup_corrupt` for notes that cannot be read
   */
  async prune(cellId: string, { dryRun = false, signal }: PruneOptions = {}): Promise<PruneResult> {
    const { table, clock } = this.#parts
    const now = clock.now()
    const { versions, notes, marks, result } = await this.#judge(cellId, now, { signal })
    if (dryRun) return result
    const going = result.versions.filter(({ action }) => action === 'remove')
    // Not now: they stay marked.
    if (!(await this.#remove(cellId, going, { signal }))) for (const each of going) each.action = 'wait'
    const kept = result.versions.filter(({ action }) => action === 'mark' || action === 'wait')
    const after = new Map(
      kept.slice(0, MARKS_MAX).map(({ version, markedAt }) => [version, markedAt as number]),
    )
    const isSame = after.size === marks.size && [...after].every(([version, at]) => marks.get(version) === at)
    if (!isSame || notes.marks.length > 1) await this.#notes.writeMarks(cellId, notes, after, now, { signal })
    this.#facts.forgetOthers(cellId, versions)
    table.notePruned(cellId, now)
    return result
  }

  /** Keeps a version whatever its age. @throws `invalid_version`, `backup_not_found` */
  async pin(cellId: string, version: string, options: CallOptions = {}): Promise<void> {
    const { objectStore, clock } = this.#parts
    pinOf(cellId, version)
    await this.#notes.pin(cellId, version, clock.now(), options)
    // After the pin: what removes versions looks at the pins first.
    if ((await objectStore.head(version, options)) !== undefined) return
    await this.#notes.unpin(cellId, version, options)
    throw backupNotFound()
  }

  /** The plan decides over the version again. @throws `invalid_version`, `backup_not_found` */
  async unpin(cellId: string, version: string, options: CallOptions = {}): Promise<void> {
    await this.#notes.unpin(cellId, version, options)
  }

  /** The cell's own plan, in place of the store's; undefined if it has none. */
  async ownPlan(cellId: string, options: CallOptions = {}): Promise<string | undefined> {
    const { notes } = await this.#look(cellId, options)
    return await this.#notes.readPlan(notes, options)
  }

  /** @param plan undefined: the store's plan holds again @throws `invalid_setting` */
  async setPlan(cellId: string, plan: string | undefined, options: CallOptions = {}): Promise<void> {
    if (plan !== undefined) parsePlan(plan)
    const { notes } = await this.#look(cellId, options)
    await this.#notes.writePlan(cellId, notes, plan, this.#parts.clock.now(), options)
  }

  /**
   * Records that a version was restored and found whole. Only what is older than the base of the version that was proven
   * last may be removed. Call it in order: a later call replaces an earlier one.
   */
  async recordProven(cellId: string, version: string, options: CallOptions = {}): Promise<void> {
    const { clock, table } = this.#parts
    const { notes } = await this.#look(cellId, options)
    const proof = { version, provenAt: clock.now() }
    await this.#notes.writeProof(cellId, notes, proof, options)
    table.noteProof(cellId, proof)
  }

  /** As far as this machine knows; asks nobody. */
  lastProven(cellId: string): Proof | undefined {
    return this.#parts.table.proof(cellId)
  }

  /** When a backup of the cell was last stored, as far as this machine knows, in epoch milliseconds; asks nobody. */
  lastStoredAt(cellId: string): number | undefined {
    return this.#parts.table.storedAt(cellId)
  }

  /** How the backups of all cells stand, as far as this machine knows. Asks nobody. */
  summary(): BackupSummary {
    const { table, progress, storeId } = this.#parts
    const { cells: stored, oldestAt } = table.storedCells(storeId)
    const plans = { keep: this.#storePlan, keepTenant: this.#tenantPlan }
    return { ...plans, stored, oldestStoredAt: oldestAt, changed: progress.dirtyCount(storeId) }
  }

  /** A cell came back from a version: if this machine knows of no backup of it, this one is known now. */
  restored(cellId: string, createdAt: number): void {
    const { table } = this.#parts
    if (table.storedAt(cellId) === undefined) table.noteStored(cellId, createdAt)
  }

  /** Removes everything that the object store holds of a cell, and the local rows. Only for a cell that is deleted. */
  async purge(cellId: string, { signal }: CallOptions = {}): Promise<PurgedObjects> {
    const { objectStore, progress, index, clock, log } = this.#parts
    const removed = await purgeObjects(objectStore, cellId, clock.now(), log, {
      signal,
      removed: (key) => index.forget(key),
    })
    progress.remove(cellId)
    this.forget(cellId)
    return removed
  }

  /** Removes the local rows of a deleted cell. */
  forget(cellId: string): void {
    this.#parts.table.remove(cellId)
  }

  get #storePlan(): string {
    return this.#parts.keep ?? PLAN_DEFAULT
  }

  get #tenantPlan(): string {
    return this.#parts.keepTenant ?? TENANT_PLAN_DEFAULT
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

  async #judge(cellId: string, now: number, options: CallOptions) {
    const { storeId, progress } = this.#parts
    const { versions, notes, restoredTo } = await this.#look(cellId, options)
    const [marks, proof, own] = await Promise.all([
      this.#notes.readMarks(notes, options),
      this.#notes.readProof(notes, options),
      this.#notes.readPlan(notes, options),
    ])
    if (proof !== undefined) this.#parts.table.noteProof(cellId, proof)
    const plan = own ?? (cellId === storeId ? CATALOG_PLAN : this.#storePlan)
    const facts = await this.#facts.read(cellId, versions, options)
    const verdicts = judgeVersions({
      versions: facts,
      plan: parsePlan(plan),
      tenantPlan: parsePlan(this.#tenantPlan),
      pins: new Set([
        ...pinnedOf(cellId, versions, notes.pins),
        // A total loss brings this one back.
        ...restoredTo,
        // Only a person knows which history is the right one.
        ...foreignVersions(progress, cellId, versions),
        ...(await this.#firstCatalog(cellId, options)),
      ]),
      current: new Set(progress.find(cellId).chain?.versions),
      proven: proof?.version,
      now,
    })
    const judged = verdicts.map(({ version, keep, step }, i): PrunedVersion => {
      const { createdAt, origin } = facts[i] as (typeof facts)[number]
      const { sizeBytes } = versions[i] as StoredVersion
      const timing = keep === undefined ? timingOf(marks.get(version), now) : KEPT
      return { version, sizeBytes, createdAt, origin, reason: keep ?? null, step: step ?? null, ...timing }
    })
    holdLinks(judged, facts)
    if (this.#isPaused()) for (const each of judged) if (each.action === 'remove') each.action = 'wait'
    return { versions, notes, marks, result: { plan, tenantPlan: this.#tenantPlan, versions: judged } }
  }

  /** A start that does not find it is refused. */
  async #firstCatalog(cellId: string, { signal }: CallOptions): Promise<string[]> {
    const { storeId, claim } = this.#parts
    if (cellId !== storeId) return []
    await claim.ensure(signal)
    return claim.firstCatalog === undefined ? [] : [claim.firstCatalog]
  }

  /** Once somebody has set the clock, nothing goes for a day that really passes. Meanwhile wrong marks are taken back. */
  #isPaused(): boolean {
    const zero = this.#currentZero()
    const now = this.#parts.clock.monotonic()
    if (Math.abs(zero - this.#clockZero) > CLOCK_SET_MS) this.#pausedUntil = now + MARKED_MS
    this.#clockZero = zero
    return now < this.#pausedUntil
  }

  #currentZero(): number {
    const { clock } = this.#parts
    return clock.now() - clock.monotonic()
  }

  /** A listing shows the versions, and the notes next to them. */
  async #look(
    cellId: string,
    { signal }: CallOptions,
  ): Promise<{ versions: StoredVersion[]; notes: NoteKeys; restoredTo: string[] }> {
    const keys = { pin: [] as string[], marks: [] as string[], proven: [] as string[], plan: [] as string[] }
    const onOther = (key: string) => {
      const note = parseNote(key)
      if (note !== undefined) keys[note.kind].push(key)
    }
    const { versions, marks } = await this.#parts.index.contents(cellId, { signal, onOther })
    const { pin: pins, ...others } = keys
    const newest = parseVersion(versions[0]?.version ?? '')?.time ?? 0
    const restoredTo = marks.filter(({ time }) => time > newest).map(({ version }) => version)
    return { versions, notes: { pins, ...others }, restoredTo }
  }

  /** Newest first: an incremental goes before what it continues, so that an end in between leaves no chain with a gap. */
  async #remove(cellId: string, going: readonly PrunedVersion[], { signal }: CallOptions): Promise<boolean> {
    if (going.length === 0) return true
    const { objectStore, index, table } = this.#parts
    const { notes } = await this.#look(cellId, { signal })
    const pins = new Set(notes.pins)
    // Somebody has pinned one meanwhile: what it needs is not known here, and the next look decides again.
    if (going.some(({ version }) => pins.has(pinOf(cellId, version)))) return false
    for (const { version } of going.toSorted((a, b) => compareVersions(a.version, b.version))) {
      await objectStore.delete(version, { signal })
      index.forget(version)
      table.removeFacts(cellId, version)
    }
    return true
  }
}

const KEPT = { action: 'keep', markedAt: null } as const

/** A listing that lagged behind may have shown a base without what rests on it: the base goes with that or after it. */
function holdLinks(judged: readonly PrunedVersion[], facts: readonly VersionFacts[]): void {
  const held = new Set(facts.flatMap(({ chain = [] }, i) => (judged[i]?.action === 'remove' ? [] : chain)))
  for (const each of judged) if (each.action === 'remove' && held.has(each.version)) each.action = 'wait'
}

/** A mark from the future is no mark: the clock was wrong then, or is now. */
function timingOf(marked: number | undefined, now: number): Pick<PrunedVersion, 'action' | 'markedAt'> {
  if (marked === undefined || marked > now) return { action: 'mark', markedAt: now }
  return { action: now - marked >= MARKED_MS ? 'remove' : 'wait', markedAt: marked }
}

function pinnedOf(
  cellId: string,
  versions: readonly StoredVersion[],
  pins: readonly string[],
): ReadonlySet<string> {
  const keys = new Set(pins)
  if (keys.size === 0) return keys
  return new Set(versions.map(({ version }) => version).filter((version) => keys.has(pinOf(cellId, version))))
}
