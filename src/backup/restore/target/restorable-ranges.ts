import { turnOfTheLoop } from '../../../base/clock.ts'
import type { Tenure } from '../../../catalog/assignment/assignment.ts'
import type { ManifestHead } from '../../archive/manifest.ts'
import type { CallOptions } from '../../object-store/object-store.ts'
import { endOfVersion, joinLog } from '../../shipping/cell-pieces.ts'
import { LogRefs } from '../../shipping/log/log-refs.ts'
import type { CellLogs, ReadableLog } from '../../shipping/stored/cell-logs.ts'
import { type LastPiece, lastPiece } from '../../shipping/stored/last-piece.ts'
import type { RestorableRange } from '../../versions/backup-types.ts'
import type { RestoredMark } from '../../versions/object-keys.ts'
import { goesOn, isUnchanged, knownTo, placeOf, timeOf } from './known-history.ts'

/** For a page, no more log objects than these are read: what only others could show is not claimed. */
const OBJECTS_MAX = 1_000
/** Versions to look at in one turn of the event loop: each takes some tens of microseconds. */
const VERSIONS_PER_TURN = 64

export interface ReadOptions extends CallOptions {
  objectsMax?: number | undefined
}

/** The versions of a cell of which a page is made. */
export interface PageOfVersions {
  cellId: string
  /** Newest first. */
  versions: readonly ManifestHead[]
  /** The version after them, if there is one. */
  newer: ManifestHead | undefined
  marks: readonly RestoredMark[]
  /** Of the cell; undefined without a cluster. */
  tenures?: readonly Tenure[] | undefined
}

/**
 * The times that can be restored from some versions of a cell, newest first. Between two versions of one history everything can,
 * if no log object is missing. After the last version of a history it is everything up to its last commit that was shipped.
 */
export async function restorableRanges(
  logs: CellLogs,
  { cellId, versions, newer, marks, tenures }: PageOfVersions,
  options: ReadOptions,
): Promise<RestorableRange[]> {
  const ranges: RestorableRange[] = []
  let next = newer
  let reach: Reach | undefined
  for (const [i, manifest] of versions.entries()) {
    if (i % VERSIONS_PER_TURN === VERSIONS_PER_TURN - 1) {
      await turnOfTheLoop()
      options.signal?.throwIfAborted()
    }
    const from = timeOf(manifest)
    const log = logs.of(manifest, tenures)
    if (reach?.log !== log) {
      const rest = versions.slice(i)
      const end = rest.findIndex((each) => logs.of(each, tenures) !== log)
      const refs = await refsAfter(log, end === -1 ? rest : rest.slice(0, end), options)
      reach = new Reach(log, cellId, refs, options)
    }
    const isSame = next !== undefined && goesOn(manifest, next, marks)
    const to = await reach.of(manifest, next, isSame)
    const last = ranges.at(-1)
    if (last !== undefined && to >= last.from) last.from = Math.min(from, last.from)
    else ranges.push({ from, to })
    next = manifest
  }
  return ranges
}

/** Finds out up to when versions, newest first, can be restored with the log objects after them. */
class Reach {
  readonly log: ReadableLog
  readonly #cellId: string
  readonly #refs: LogRefs
  /** Of them, those that are missing. */
  readonly #missing: LogRefs
  readonly #options: CallOptions
  #room: number
  /** A log object with what the cell committed in the history after the version before: all that it committed earlier is in those up to it. */
  #proof: string | undefined

  constructor(
    log: ReadableLog,
    cellId: string,
    refs: LogRefs,
    { objectsMax = OBJECTS_MAX, signal }: ReadOptions,
  ) {
    this.log = log
    this.#cellId = cellId
    this.#refs = refs
    this.#missing = refs.missing
    this.#room = objectsMax
    this.#options = { signal }
  }

  /** @param isSame the history of the version goes on to the next one */
  async of(manifest: ManifestHead, next: ManifestHead | undefined, isSame: boolean): Promise<number> {
    if (!isSame) this.#proof = undefined
    if (manifest.log === undefined) return timeOf(manifest)
    if (next !== undefined && isSame && (await this.#isKnown(manifest, next))) return timeOf(next)
    const own = this.#between(manifest, next)
    // Half of them are for what is between versions.
    const most = this.#room / 2
    if (own.end - own.begin > most) {
      const last = await this.#lastPiece(manifest, own, most)
      if (last === undefined) return timeOf(manifest)
      if (this.#isWhole(manifest, last.key)) {
        this.#proof = last.key
        return last.piece.commits.at(-1)?.[1] ?? timeOf(manifest)
      }
    }
    const log = await joinLog(
      this.log,
      { ...manifest.log, cellId: this.#cellId },
      {
        ...this.#options,
        until: next && timeOf(next),
        through: next && isSame ? placeOf(next) : undefined,
        refs: this.#refs.slice(own.begin, own.begin + this.#room),
        isNewest: next === undefined,
      },
    )
    this.#room -= log.objects
    this.#proof = log.wals[0]?.pieces[0]?.ref.key
    return knownTo(log, manifest, isSame ? next : undefined)
  }

  /** Whether everything is known between two versions of a history. */
  async #isKnown(manifest: ManifestHead, next: ManifestHead): Promise<boolean> {
    if (isUnchanged(manifest, next)) return true
    if (this.#proof === undefined) {
      const last = await this.#lastPiece(manifest, this.#between(manifest, next))
      if (last !== undefined && isAtOrAfter(last, next)) this.#proof = last.key
    }
    return this.#proof !== undefined && this.#isWhole(manifest, this.#proof)
  }

  async #lastPiece(
    { log }: ManifestHead,
    { begin, end }: Stretch,
    objectsMax = this.#room,
  ): Promise<LastPiece | undefined> {
    const limits = { ...this.#options, history: log?.history, objectsMax }
    // From the end on, as many as are read at most.
    const refs = this.#refs.slice(Math.max(begin, end - objectsMax), end)
    const { last, objects } = await lastPiece(this.log, this.#cellId, refs, limits)
    this.#room = Math.max(0, this.#room - objects)
    return last !== undefined && last.piece.sequence > (log?.sequence ?? 0) ? last : undefined
  }

  /** Whether no log object from a version up to another object is missing. */
  #isWhole({ log }: ManifestHead, upTo: string): boolean {
    const missing = this.#missing.at(this.#missing.firstAfter(log?.after ?? null))
    return missing === undefined || missing.key > upTo
  }

  /** The log objects that can have what the cell committed after a version, and before the next one. */
  #between({ log }: ManifestHead, next: ManifestHead | undefined): Stretch {
    const begin = this.#refs.firstAfter(log?.after ?? null)
    const end = next?.log === undefined ? this.#refs.length : endOfVersion(this.#refs, next.log)
    return { begin, end: Math.max(begin, end) }
  }
}

/** Some log objects, by their numbers in the row of all. */
interface Stretch {
  begin: number
  end: number
}

/** Pieces are shipped in their order: one from there on shows that all before are. */
function isAtOrAfter({ piece }: LastPiece, next: ManifestHead): boolean {
  const place = placeOf(next)
  if (place === undefined) return false
  return piece.sequence > place.sequence || (piece.sequence === place.sequence && piece.to === place.frames)
}

/** One look for all versions of the page. */
async function refsAfter(
  log: ReadableLog,
  versions: readonly ManifestHead[],
  options: CallOptions,
): Promise<LogRefs> {
  const [oldest] = versions
    .flatMap((each) => each.log ?? [])
    .map(({ after }) => after ?? '')
    .sort()
  return oldest === undefined ? LogRefs.none : await log.after(oldest === '' ? null : oldest, options)
}
