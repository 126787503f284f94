import { backOffMs, rest } from '../../../base/async/back-off.ts'
import type { Clock } from '../../../base/clock.ts'
import { bufferBody, type CallOptions, type ObjectStore } from '../../object-store/object-store.ts'
import { parseVersion, type RestoredMark, restoredMarkOf, versionOf } from '../../versions/object-keys.ts'
import { nextStamp, type Stamps } from '../../versions/stamps.ts'
import type { StoredVersion } from '../../versions/stored-manifest.ts'

/** What the object store has of a cell, newest first. */
export interface CellContents {
  versions: readonly StoredVersion[]
  marks: readonly RestoredMark[]
}

/** A state of a cell: a version, and what was committed after it. */
interface CellState {
  version: string
  /** With what was shipped after the version. */
  hasLog: boolean
  /** Epoch milliseconds: up to then. Undefined: all of it. */
  until: number | undefined
}

/**
 * The state that the cell had last, as far as the object store knows: its newest version and the log after it, unless the cell
 * was restored to another state after that.
 */
export function currentState({ versions, marks }: CellContents): CellState | undefined {
  const newest = versions[0]?.version
  const [mark] = marks
  if (newest === undefined) return undefined
  const isMarked = mark !== undefined && mark.time > timeOf(newest)
  if (!isMarked || !versions.some(({ version }) => version === mark.version))
    return { version: newest, hasLog: true, until: undefined }
  return { version: mark.version, hasLog: mark.at !== undefined, until: mark.at }
}

/** The cell of a mark, wherever it is open. */
export interface MarkedCell {
  /** The newest version that this machine knows, stored or only tried. */
  last: string | null
  /** The cell counts as changed, and the time of this name is used up. */
  noteMark(name: string): Promise<void>
}

/** A mark that nobody has stored yet. */
export interface NewMark {
  mark: RestoredMark
  /** The name of a version at the mark's place in the order; no version has it. */
  name: string
}

/** A mark after all that the cell has had. */
export function newMark(
  clock: Clock,
  { version, at }: Pick<RestoredMark, 'version' | 'at'>,
  contents: CellContents,
  { cellId, last, stamps }: Pick<MarkedCell, 'last'> & { cellId: string; stamps?: Stamps | undefined },
): NewMark {
  const taken = [last, lastName(cellId, contents)].map(timeOf)
  const time = nextStamp(clock.now(), taken, stamps)
  return { mark: restoredMarkOf(time, { version, at }), name: versionOf(cellId, time) }
}

/**
 * Marks that a cell is restored to a state: a total loss then brings back this one, and not that of its newest backup.
 * Call it before the switch, so that the restored cell never serves without its mark. After a crash between the two, the
 * old cell is still here and counts as changed, and its next backup is newer than the mark.
 */
export async function storeMark(
  store: ObjectStore,
  { mark: { key, version, at }, name }: NewMark,
  { noteMark }: MarkedCell,
  options: CallOptions,
): Promise<void> {
  await noteMark(name)
  await store.put(key, bufferBody(Buffer.from(`${JSON.stringify({ version, at })}\n`)), options)
}

/**
 * Removes marks: those of earlier restores once a later one has ended, or the mark of one that has failed. Only the newest counts,
 * so that an earlier one that stays does no harm; the next restore removes it.
 *
 * @returns those that could not be removed
 */
export async function removeMarks(
  store: ObjectStore,
  marks: readonly RestoredMark[],
  options: CallOptions = {},
): Promise<RestoredMark[]> {
  const removals = await Promise.allSettled(marks.map(({ key }) => store.delete(key, options)))
  return marks.filter((_, i) => removals[i]?.status === 'rejected')
}

/** The last name in the order of a cell's versions that a version or a mark has: the next version gets a later one. */
export function lastName(cellId: string, { versions, marks }: CellContents): string | undefined {
  const newest = versions[0]?.version
  const [mark] = marks
  return mark === undefined || mark.time <= timeOf(newest) ? newest : versionOf(cellId, mark.time)
}

/** Whether a version that this machine has tried to store is later than all that is stored. */
export function isTriedOnly(last: string | null, { versions, marks }: CellContents): boolean {
  return timeOf(last) > Math.max(timeOf(versions[0]?.version), marks[0]?.time ?? 0)
}

function timeOf(version: string | null | undefined): number {
  return (version && parseVersion(version)?.time) || 0
}

const BACK_OFF = { minMs: 1_000, maxMs: 60_000 }

interface RefusedRestoresParts {
  objectStore: ObjectStore
  /** As in `CellPort`. */
  needsBase(cellId: string): Promise<void>
  clock: Clock
}

/**
 * Cells whose restore was refused after their history had ended. Each gets a version: it begins a new history, and a mark that
 * is stored all the same, or arrives late, is older and counts no more. Until then a mark that stays is what a total loss would
 * bring back, so its removal is tried, too.
 */
export class RefusedRestores {
  readonly #parts: RefusedRestoresParts
  readonly #running = new Set<Promise<void>>()
  readonly #abort = new AbortController()
  #deadline: AbortSignal | undefined

  constructor(parts: RefusedRestoresParts) {
    this.#parts = parts
  }

  /** @param marks those that may be stored */
  add(cellId: string, marks: readonly RestoredMark[]): void {
    const running = this.#mend(cellId, marks).finally(() => this.#running.delete(running))
    this.#running.add(running)
  }

  /** Marks that may be stored are tried to be removed once more, until the deadline. */
  async stop(deadline: AbortSignal): Promise<void> {
    this.#deadline = deadline
    this.#abort.abort()
    await Promise.all(this.#running)
  }

  async #mend(cellId: string, marks: readonly RestoredMark[]): Promise<void> {
    const { objectStore, needsBase, clock } = this.#parts
    const outdated = new AbortController()
    needsBase(cellId).then(
      () => outdated.abort(),
      // The store is being closed, or the cell is gone, and may be restored: its marks must go.
      () => {},
    )
    const signal = AbortSignal.any([this.#abort.signal, outdated.signal])
    let left = marks
    for (let failures = 0; left.length > 0 && !signal.aborted; failures++) {
      left = await removeMarks(objectStore, left, { signal })
      if (left.length > 0) await rest(clock, backOffMs(failures, BACK_OFF), signal)
    }
    if (left.length > 0 && !outdated.signal.aborted)
      await removeMarks(objectStore, left, { signal: this.#deadline })
  }
}
