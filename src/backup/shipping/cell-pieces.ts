import { isError } from '../../base/any-realm.ts'
import { turnOfTheLoop } from '../../base/clock.ts'
import { CellError, isCellError } from '../../errors.ts'
import { corrupt, inObject } from '../archive/backup-errors.ts'
import { MANIFEST_MEMBER } from '../archive/manifest.ts'
import type { Place } from '../changes/history.ts'
import type { CallOptions } from '../object-store/object-store.ts'
import { completeTo, type LogManifest, type StoredPiece } from './log/log-manifest.ts'
import type { LogRef, LogRefs } from './log/log-refs.ts'
import type { ReadableLog } from './stored/cell-logs.ts'
import { checkPrevious } from './stored/log-index.ts'

/** What is looked for: the log of a cell after one of its versions. */
interface LogAfter {
  cellId: string
  history: string
  /** The version holds everything up to the end of this sequence. */
  sequence: number
  /** The last log object that was stored before the version's cut, or null. */
  after: string | null
}

/** Frames of a piece that count, those after them are replaced by later pieces. */
export interface PieceOfWal {
  ref: LogRef
  piece: StoredPiece
  /** Up to here. */
  to: number
}

/** What the pieces of one sequence make: a WAL from its header to a commit. */
export interface JoinedWal {
  sequence: number
  frames: number
  pageSize: number
  pieces: PieceOfWal[]
  commits: [frames: number, time: number][]
}

/** The log of a cell after a version. */
export interface CellLog {
  wals: JoinedWal[]
  /** The object that can't be used, or what is missing between two pieces: it ends `wals`. */
  damage: CellError | undefined
  /** Epoch milliseconds: nothing that was committed before it is missing in `wals`; undefined if no object says so. */
  completeTo: number | undefined
  /** How many log objects were read. */
  objects: number
}

const PARALLEL_READS = 16

export interface JoinOptions extends CallOptions {
  /** Epoch milliseconds: what was committed after it is not needed. */
  until?: number | undefined
  /** Epoch milliseconds, `until` by default: where the history ends at the latest. */
  horizon?: number | undefined
  /** What follows this version is not needed. */
  through?: VersionPlace | undefined
  /** No version is newer, and the cell exists: then no object with what comes after it was removed for its age. */
  isNewest?: boolean | undefined
  /** The log objects after the version, if they are listed already. */
  refs?: LogRefs | undefined
}

/**
 * Joins what the log objects have of a cell after one of its versions.
 *
 * @throws what the object store throws; damage is a result
 */
export async function joinLog(
  index: ReadableLog,
  after: LogAfter,
  { until, horizon = until, through, signal, isNewest = false, refs: known }: JoinOptions = {},
): Promise<CellLog> {
  const all = known ?? (await index.after(after.after, { signal }))
  const refs = isNewest ? all.withoutRemoved : all
  const log = new LogJoin(after.sequence)
  const ofVersion = through && refsUpTo(refs, through)
  const isEnough = (read: number) =>
    log.isBroken ||
    (through !== undefined && log.holds(through, ofVersion?.slice(read).at(-1))) ||
    (until !== undefined && log.isPast(until))
  if (isEnough(0)) return log.end(0)
  /** No object of an earlier epoch is believed to be complete. */
  let believedFrom = 0
  let before: LogRef | undefined
  for (let i = 0; i < refs.length; i += PARALLEL_READS) {
    // What is kept in memory is read without any wait.
    await turnOfTheLoop()
    signal?.throwIfAborted()
    const some = [...refs.slice(i, i + PARALLEL_READS)]
    const manifests = await Promise.all(some.map((ref) => readable(index, ref)))
    for (const [j, manifest] of manifests.entries()) {
      const ref = some[j] as LogRef
      const damage = isError(manifest) ? manifest : brokenChain(manifest, before)
      if (damage !== undefined) log.suspect(damage)
      if (!isError(manifest)) add(log, ref, manifest, after)
      before = ref
      if (isEnough(i + j + 1)) return log.end(i + j + 1)
      const { completeTo } = log
      if (horizon === undefined || completeTo === undefined) continue
      if (ref.epoch < believedFrom || !log.isCompleteAfter(horizon)) continue
      const complete = { ref, completeTo, later: refs.slice(i + j + 1) }
      const doubt = await epochOfDoubt(complete, horizon, (each) => readable(index, each))
      if (doubt === undefined) return log.end(i + j + 1)
      believedFrom = Math.max(doubt, ref.epoch + 1)
    }
  }
  return log.end(refs.length)
}

function add(
  log: LogJoin,
  ref: LogRef,
  manifest: LogManifest,
  { cellId, history, sequence }: LogAfter,
): void {
  for (const cell of manifest.cells) {
    if (cell.cell_id !== cellId || cell.history !== history) continue
    for (const piece of cell.pieces) if (piece.sequence > sequence) log.add(ref, piece)
  }
  const time = completeTo(manifest)
  if (time !== undefined) log.complete(time)
}

async function readable(index: ReadableLog, ref: LogRef): Promise<LogManifest | CellError> {
  if (ref.isRemoved) return removedForAge(ref)
  try {
    return await index.manifest(ref)
  } catch (error) {
    if (isCellError(error, 'backup_corrupt')) return error
    throw error
  }
}

/** No damage: retention has removed it. */
function removedForAge({ key }: LogRef): CellError {
  return new CellError('backup_not_found', `${key} was removed for its age (--history, historyMs).`)
}

function brokenChain(manifest: LogManifest, before: LogRef | undefined): CellError | undefined {
  try {
    checkPrevious(manifest, before)
    return undefined
  } catch (error) {
    return error as CellError
  }
}

/** Joins pieces as they were shipped, one after the other. */
class LogJoin {
  readonly #wals: JoinedWal[] = []
  /** The sequence that the version ends with. */
  readonly #sequence: number
  /** An object that can't be read. What comes after it counts only if nothing of the cell can be in it. */
  #suspect: CellError | undefined
  #broken: CellError | undefined
  #completeTo: number | undefined

  constructor(sequence: number) {
    this.#sequence = sequence
  }

  get completeTo(): number | undefined {
    return this.#completeTo
  }

  get isBroken(): boolean {
    return this.#broken !== undefined
  }

  /** Whether later objects have nothing of the cell that was committed up to a time: its times never step back. */
  isPast(time: number): boolean {
    if (this.#suspect !== undefined) return false
    return (this.#wals.at(-1)?.commits.at(-1)?.[1] ?? 0) > time
  }

  /** The same, of a cell that commits nothing: the clock that said up to when an object is complete may have stepped back. */
  isCompleteAfter(time: number): boolean {
    return this.#suspect === undefined && (this.#completeTo ?? 0) > time + CLOCK_STEP_MAX_MS
  }

  /**
   * Whether it is all that a version holds. A power loss may have taken the last frames after they were shipped: what has replaced
   * them was shipped by the next node, and may be as long.
   *
   * @param unread the last one of the log objects that can have it, too
   */
  holds(version: VersionPlace, unread: LogRef | undefined): boolean {
    if (version.sequence <= this.#sequence) return true
    const last = this.#wals.at(-1)
    if (last === undefined || !holdsPlace(this.#wals, version)) return false
    const epoch = last.pieces.at(-1)?.ref.epoch ?? 0
    return last.sequence > version.sequence || (unread?.epoch ?? 0) <= epoch
  }

  suspect(error: CellError): void {
    this.#suspect ??= error
  }

  complete(time: number): void {
    // Before a suspect, a later object proves nothing about what came with it.
    if (this.#suspect !== undefined || this.#broken !== undefined) return
    this.#completeTo = time
  }

  add(ref: LogRef, piece: StoredPiece): void {
    if (this.#broken !== undefined) return
    // Power may have been lost, and with it what was shipped and never acknowledged: then the cell has gone back.
    const kept = this.#wals.filter(({ sequence }) => sequence < piece.sequence)
    const same = this.#wals.find(({ sequence }) => sequence === piece.sequence)
    const continues = same !== undefined && piece.from > 0
    const isFirst = kept.length === 0 && piece.sequence === this.#sequence + 1 && piece.from === 0
    if (this.#suspect !== undefined && !isFirst && !follows(same, piece)) {
      this.#broken = this.#suspect
      return
    }
    this.#suspect = undefined
    const last = kept.at(-1)?.sequence ?? this.#sequence
    const gap = this.#gapBefore(ref, piece, same, last)
    if (gap !== undefined) {
      this.#broken = gap
      return
    }
    this.#wals.splice(0, this.#wals.length, ...kept, joined(continues ? same : undefined, ref, piece))
  }

  end(objects: number): CellLog {
    const damage = this.#broken ?? this.#suspect
    return { wals: this.#wals, damage, completeTo: this.#completeTo, objects }
  }

  #gapBefore(
    { key }: LogRef,
    piece: StoredPiece,
    same: JoinedWal | undefined,
    last: number,
  ): CellError | undefined {
    const { from, to, sequence, member, commits } = piece
    const problem =
      sequence !== last + 1
        ? `what the cell committed before it is in no log object (sequence ${last + 1})`
        : from > (same?.frames ?? 0)
          ? `the frames before it are in no log object`
          : from > 0 && same !== undefined && !isSameWal(same, piece)
            ? 'it continues another write-ahead log'
            : commits.at(-1)?.[0] !== to || to <= from
              ? 'its commits do not match its frames'
              : undefined
    return problem === undefined
      ? undefined
      : inObject(key, corrupt(MANIFEST_MEMBER, `${member}: ${problem}`))
  }
}

/** Whether a log has everything up to a place in its history, at which a commit ends. */
export function holdsPlace(wals: readonly JoinedWal[], { sequence, frames }: Place): boolean {
  const last = wals.at(-1)
  if (last === undefined) return false
  return last.sequence > sequence || (last.sequence === sequence && last.frames === frames)
}

function isSameWal({ pieces, pageSize }: JoinedWal, piece: StoredPiece): boolean {
  return pieces[0]?.piece.salts === piece.salts && pageSize === piece.page_size
}

/** Whether nothing can be missing between what is known of a WAL and a piece of it. */
function follows(same: JoinedWal | undefined, piece: StoredPiece): boolean {
  if (same === undefined) return false
  return piece.from === 0 || (piece.from <= same.frames && isSameWal(same, piece))
}

/** A piece replaces, from its first frame on, what earlier ones have. */
function joined(before: JoinedWal | undefined, ref: LogRef, piece: StoredPiece): JoinedWal {
  const { sequence, page_size: pageSize, from, to, commits } = piece
  const pieces = (before?.pieces ?? [])
    .filter((each) => each.piece.from < from)
    .map((each) => ({ ...each, to: Math.min(each.to, from) }))
  const own = { ref, piece, to }
  return {
    sequence,
    frames: to,
    pageSize,
    pieces: [...pieces, own],
    commits: [...commitsUpTo(before?.commits ?? [], from), ...commits],
  }
}

/** An entry stands for all commits of a millisecond: if only some of them are replaced, the others stay. */
function commitsUpTo(commits: readonly [number, number][], frames: number): [number, number][] {
  const kept = commits.filter(([end]) => end <= frames)
  const next = commits[kept.length]
  if (next !== undefined && frames > (kept.at(-1)?.[0] ?? 0)) kept.push([frames, next[1]])
  return kept
}

/** The log up to the last commit at or before a time. @returns undefined if there is no such commit */
export function cutLog(
  wals: readonly JoinedWal[],
  until: number,
): { wals: JoinedWal[]; time: number } | undefined {
  const cut: JoinedWal[] = []
  let time: number | undefined
  for (const wal of wals) {
    const commits = wal.commits.filter(([, at]) => at <= until)
    const last = commits.at(-1)
    if (last === undefined) break
    const [frames, at] = last
    time = at
    const pieces = wal.pieces
      .filter(({ piece }) => piece.from < frames)
      .map((each) => ({ ...each, to: Math.min(each.to, frames) }))
    cut.push({ ...wal, commits, frames, pieces })
    if (frames < wal.frames) break
  }
  return time === undefined ? undefined : { wals: cut, time }
}

/** What a version holds is in objects that were stored before its cut, or in one of the next. */
const OBJECTS_AFTER_CUT = 16

/** Where a version is in the history of its cell. */
export interface VersionPlace extends Place {
  /** The last log object that was stored before its cut; null if there is none, or its node did not know it yet. */
  after: string | null
}

/** The log objects that can have what a version holds. */
function refsUpTo(refs: LogRefs, version: Pick<VersionPlace, 'after'>): LogRefs {
  return refs.slice(0, endOfVersion(refs, version))
}

/**
 * After how many log objects, in their order, there is nothing that a version holds. A node that has just started knows of none
 * before its cut: then it can be any of them.
 */
export function endOfVersion(refs: LogRefs, { after }: Pick<VersionPlace, 'after'>): number {
  return after === null ? refs.length : Math.min(refs.length, refs.firstAfter(after) + OBJECTS_AFTER_CUT)
}

/** A clock is not set back by more: what an object says to be complete, later ones may add to if it was. */
const CLOCK_STEP_MAX_MS = 86_400_000

/** An object that says that everything up to a time is in it, or in earlier ones. */
interface CompleteObject {
  ref: LogRef
  completeTo: number
  /** The log objects after it, in their order. */
  later: LogRefs
}

/**
 * The clock may have been far ahead when it said up to when an object is complete. A later process with a right clock then has
 * what was committed before that: in its first object, since each epoch has one process that ships. Or the newest object of all is from
 * before that time.
 *
 * @param horizon epoch milliseconds: what was committed after it does not matter
 * @returns the last epoch that shows it; no object of an earlier epoch is to be believed
 */
async function epochOfDoubt(
  { ref, completeTo, later }: CompleteObject,
  horizon: number,
  read: (ref: LogRef) => Promise<LogManifest | CellError>,
): Promise<number | undefined> {
  const newest = later.at(-1) ?? ref
  const last = await read(newest)
  if (!('created_at' in last) || Date.parse(last.created_at) < completeTo) return newest.epoch
  const firsts = later.firstOfEpochs.filter(({ epoch }) => epoch !== ref.epoch).reverse()
  for (let i = 0; i < firsts.length; i += PARALLEL_READS) {
    const some = firsts.slice(i, i + PARALLEL_READS)
    const manifests = await Promise.all(some.map(read))
    const doubt = manifests.findIndex((manifest) => !beginsAfter(manifest, horizon + CLOCK_STEP_MAX_MS))
    if (doubt !== -1) return some[doubt]?.epoch
  }
  return undefined
}

/** What the object store has taken late was committed earlier than the object was made. */
function beginsAfter(manifest: LogManifest | CellError, time: number): boolean {
  return 'created_at' in manifest && Math.min(Date.parse(manifest.created_at), manifest.from) > time
}
