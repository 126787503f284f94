import { isDeepStrictEqual } from 'node:util'
import type { Clock } from '../../../base/clock.ts'
import { FLAG, type Shape } from '../../../base/options/option-shapes.ts'
import type { BackupProgressTable } from '../../changes/progress-table.ts'
import { CALL, type CallOptions, type ObjectStore } from '../../object-store/object-store.ts'
import type { BackupOrigin } from '../backup-types.ts'
import { ClockWatch } from '../clock-watch.ts'
import { foreignVersions } from '../identity/foreign-versions.ts'
import type { ObjectStoreClaim } from '../identity/object-store-claim.ts'
import { compareVersions } from '../object-keys.ts'
import type { StoredVersion } from '../stored-manifest.ts'
import { VersionFactsReader } from '../version-facts.ts'
import type { VersionFindings } from '../version-findings.ts'
import type { VersionIndex } from '../version-index.ts'
import type { Removals, WorkInProgress } from '../work-in-progress.ts'
import { listNoted, type Marks, type NotedVersions, pinOf, type RetentionNotes } from './retention-notes.ts'
import { CATALOG_PLAN, parsePlan } from './retention-plan.ts'
import type { RetentionTable } from './retention-table.ts'
import { judgeVersions, type KeepReason, linksOf, type VersionFacts } from './retention-verdicts.ts'

/** From its mark to the removal of a version: time to notice a clock or a plan that is wrong. */
const MARKED_MS = 24 * 3_600_000
/** Bounds the object that holds the marks; the other versions are marked later. */
const MARKS_MAX = 100_000

interface PrunerParts {
  objectStore: ObjectStore
  /** The catalog's versions have a plan of their own. */
  storeId: string
  /** Knows the first catalog, which always stays. */
  claim: ObjectStoreClaim
  /** The store's plans. */
  keep: string
  keepTenant: string
  /** How far back moments can be restored. */
  historyMs: number
  notes: RetentionNotes
  index: VersionIndex
  table: RetentionTable
  progress: BackupProgressTable
  work: WorkInProgress
  findings: VersionFindings
  clock: Clock
}

/** Marks the versions of a cell that its plan no longer keeps, and removes them a day later. */
export class Pruner {
  readonly #parts: PrunerParts
  readonly #facts: VersionFactsReader
  /** Once somebody has set the clock, nothing goes for a day that really passes. */
  readonly #clockWatch: ClockWatch

  constructor(parts: PrunerParts) {
    this.#parts = parts
    this.#facts = new VersionFactsReader(parts.index, parts.table)
    this.#clockWatch = new ClockWatch(parts.clock, MARKED_MS)
  }

  /** This machine has just stored a version: what it says need not be read. */
  noteStored(cellId: string, version: string): void {
    this.#facts.noteStored(cellId, version)
  }

  /** @throws as `Retention.prune` */
  async prune(cellId: string, { dryRun = false, signal }: PruneOptions = {}): Promise<PruneResult> {
    const { table, notes: written, clock } = this.#parts
    const now = clock.now()
    const looked = await listNoted(this.#parts.index, cellId, { signal })
    const { versions, notes } = looked
    const { marks, result } = await this.#judge(cellId, looked, now, { signal })
    if (dryRun) return result
    const going = result.versions.filter(({ action }) => action === 'remove')
    const left = await this.#remove(cellId, going, looked, { signal })
    // Not now: they stay marked.
    for (const each of left) each.action = 'wait'
    const kept = result.versions.filter(({ action }) => action === 'mark' || action === 'wait')
    const after = new Map(
      kept.slice(0, MARKS_MAX).map(({ version, markedAt }) => [version, markedAt as number]),
    )
    const isSame = after.size === marks.size && [...after].every(([version, at]) => marks.get(version) === at)
    if (!isSame || notes.marks.length > 1) await written.writeMarks(cellId, notes, after, now, { signal })
    this.#facts.forgetOthers(cellId, versions)
    table.notePruned(cellId, now)
    return result
  }

  async #judge(
    cellId: string,
    { versions, notes, restoredTo }: NotedVersions,
    now: number,
    options: CallOptions,
  ): Promise<{ marks: Marks; result: PruneResult }> {
    const { storeId, progress, findings, notes: written } = this.#parts
    const [marks, proof, own] = await Promise.all([
      written.readMarks(notes, options),
      written.readProof(notes, options),
      written.readPlan(notes, options),
    ])
    if (proof !== undefined) this.#parts.table.noteProof(cellId, proof)
    const plan = own ?? (cellId === storeId ? CATALOG_PLAN : this.#parts.keep)
    const facts = await this.#facts.read(cellId, versions, options)
    const verdicts = judgeVersions({
      versions: facts,
      plan: parsePlan(plan),
      tenantPlan: parsePlan(this.#parts.keepTenant),
      pins: new Set([
        ...pinnedOf(cellId, versions, notes.pins),
        // A total loss brings this one back.
        ...restoredTo,
        // Only a person knows which history is the right one.
        ...foreignVersions(findings, cellId, versions),
        ...(await this.#firstCatalog(cellId, options)),
      ]),
      current: new Set(progress.find(cellId).chain?.versions),
      proven: proof?.version,
      now,
      horizon: now - this.#parts.historyMs,
    })
    const judged = verdicts.map(({ version, keep, step }, i): PrunedVersion => {
      const { createdAt, origin, chain } = facts[i] as (typeof facts)[number]
      const { sizeBytes } = versions[i] as StoredVersion
      const timing = keep === undefined ? timingOf(marks.get(version), now) : KEPT
      const found = { version, sizeBytes, createdAt, origin, restorable: chain !== undefined }
      return { ...found, reason: keep ?? null, step: step ?? null, ...timing }
    })
    holdLinks(judged, facts)
    // Meanwhile wrong marks are taken back.
    if (this.#clockWatch.isPaused())
      for (const each of judged) if (each.action === 'remove') each.action = 'wait'
    return { marks, result: { plan, tenantPlan: this.#parts.keepTenant, versions: judged } }
  }

  /** A start that does not find it is refused. */
  async #firstCatalog(cellId: string, { signal }: CallOptions): Promise<string[]> {
    const { storeId, claim } = this.#parts
    if (cellId !== storeId) return []
    await claim.ensure(signal)
    return claim.firstCatalog === undefined ? [] : [claim.firstCatalog]
  }

  /**
   * Newest first: an incremental goes before what it continues, so that an end in between leaves no chain with a gap.
   *
   * @returns what it has left
   */
  async #remove(
    cellId: string,
    going: readonly PrunedVersion[],
    looked: NotedVersions,
    { signal }: CallOptions,
  ): Promise<readonly PrunedVersion[]> {
    if (going.length === 0) return []
    return await this.#parts.work.removing(cellId, (removals) =>
      this.#removeEach(cellId, going, looked, removals, { signal }),
    )
  }

  async #removeEach(
    cellId: string,
    going: readonly PrunedVersion[],
    looked: NotedVersions,
    removals: Removals,
    { signal }: CallOptions,
  ): Promise<readonly PrunedVersion[]> {
    const { objectStore, index, table } = this.#parts
    const { notes, restoredTo } = await listNoted(index, cellId, { signal })
    // Somebody has pinned, proven or restored a version meanwhile, or set another plan: the next look decides again.
    const isSame = isDeepStrictEqual(
      { notes, restoredTo },
      { notes: looked.notes, restoredTo: looked.restoredTo },
    )
    if (!isSame) return going
    const inOrder = going.toSorted((a, b) => compareVersions(a.version, b.version))
    for (const [i, { version }] of inOrder.entries()) {
      const isRemoved = await removals.next(async () => {
        // Many removals take long, and a pin that was answered must hold; what it rests on is older.
        if ((await objectStore.head(pinOf(cellId, version), { signal })) !== undefined) return false
        await objectStore.delete(version, { signal })
        return true
      })
      if (!isRemoved) return inOrder.slice(i)
      index.forget(version)
      table.removeFacts(cellId, version)
    }
    return []
  }
}

const KEPT = { action: 'keep', markedAt: null } as const

/** A listing that lagged behind may have shown a base without what rests on it: the base goes with that or after it. */
function holdLinks(judged: readonly PrunedVersion[], facts: readonly VersionFacts[]): void {
  const held = new Set(facts.flatMap((each, i) => (judged[i]?.action === 'remove' ? [] : linksOf(each))))
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

/** How old versions are removed. */
export interface PruneOptions extends CallOptions {
  /** Only says what would be done. */
  dryRun?: boolean
}

export const PRUNE: Shape<PruneOptions> = { ...CALL, dryRun: FLAG }

/** One version, what happens to it, and why. */
export interface PrunedVersion {
  version: string
  sizeBytes: number
  /** Epoch milliseconds. */
  createdAt: number
  origin: BackupOrigin
  /** False: it is known to be damaged, or what it rests on is damaged or missing. */
  restorable: boolean
  /** `mark`: it goes in a day. `wait`: it was marked less than a day ago. */
  action: 'keep' | 'mark' | 'wait' | 'remove'
  /** Why it stays; null if nothing keeps it. */
  reason: KeepReason | null
  /** The step of the plan that keeps it. */
  step: string | null
  /** Epoch milliseconds; null if it is not marked. */
  markedAt: number | null
}

/** What the plans say about the versions of a cell. */
export interface PruneResult {
  plan: string
  tenantPlan: string
  /** Newest first. */
  versions: PrunedVersion[]
}

/** How the cells of a store stand. */
export interface BackupSummary {
  keep: string
  keepTenant: string
  /** Cells that are stored. */
  stored: number
  /** When the cell whose newest backup is the oldest was stored, in epoch milliseconds. */
  oldestStoredAt: number | null
  /** When the newest backup of any cell was stored, in epoch milliseconds. */
  newestStoredAt: number | null
  /** Cells that have changed since they were stored, or were never stored. */
  changed: number
  /** When the oldest change was made that no backup holds, or a little earlier, in epoch milliseconds. */
  oldestChangeAt: number | null
}
