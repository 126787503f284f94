import { backOffMs, rest } from '../../base/back-off.ts'
import type { Clock } from '../../base/clock.ts'
import type { Log } from '../../base/log.ts'
import { isCellError } from '../../errors.ts'
import type { CallOptions, ObjectStore } from '../object-store/object-store.ts'
import type { RestoredMark } from '../versions/object-keys.ts'
import { removeMarks } from './restored-mark.ts'

const BACK_OFF = { minMs: 1_000, maxMs: 60_000 }

export interface RefusedRestoresParts {
  objectStore: ObjectStore
  /** Makes a version of a cell that begins a new history. */
  makeVersion(cellId: string): Promise<void>
  clock: Clock
  log: Log
}

/** A cell whose restore was refused. */
interface RefusedCell {
  /** Those that may be stored, since they could not be removed. */
  marks: readonly RestoredMark[]
  /** A version that begins now is newer than all marks. */
  isKnown: boolean
}

/**
 * Cells whose restore was refused after their history had ended. Each gets a version, tried until there is one: it begins a new
 * history, and a mark that is stored all the same, or arrives late, is older and counts no more. Until then a mark that stays is
 * what a total loss would bring back, so its removal is tried, too.
 */
export class RefusedRestores {
  readonly #parts: RefusedRestoresParts
  readonly #cells = new Map<string, RefusedCell>()
  readonly #running = new Set<Promise<void>>()
  readonly #abort = new AbortController()

  constructor(parts: RefusedRestoresParts) {
    this.#parts = parts
  }

  /** @param marks those that may be stored */
  add(cellId: string, marks: readonly RestoredMark[]): void {
    const known = this.#cells.get(cellId)
    this.#cells.set(cellId, { marks: [...(known?.marks ?? []), ...marks], isKnown: false })
    if (known !== undefined || this.#abort.signal.aborted) return
    const running = this.#mend(cellId).finally(() => this.#running.delete(running))
    this.#running.add(running)
  }

  /** Marks that may be stored are tried to be removed once more, until the deadline. */
  async stop(deadline: AbortSignal): Promise<void> {
    this.#abort.abort()
    const cells = [...this.#cells.keys()]
    await Promise.all(cells.map((cellId) => this.#removeMarks(cellId, { signal: deadline })))
    await Promise.all(this.#running)
  }

  async #mend(cellId: string): Promise<void> {
    const { clock, log } = this.#parts
    const { signal } = this.#abort
    for (let failures = 0; !signal.aborted; failures++) {
      try {
        if (await this.#tryOnce(cellId)) break
      } catch (err) {
        if (isCellError(err) && err.kind === 'closed') return
        log.warn(
          { cellId, err },
          'could not make the version that a cell needs after a refused restore; trying again',
        )
      }
      await rest(clock, backOffMs(failures, BACK_OFF), signal)
    }
    if (!signal.aborted) this.#cells.delete(cellId)
  }

  /** @returns whether nothing is left to do */
  async #tryOnce(cellId: string): Promise<boolean> {
    const isRemoved = await this.#removeMarks(cellId, { signal: this.#abort.signal })
    const refused = this.#cells.get(cellId) as RefusedCell
    this.#cells.set(cellId, { ...refused, isKnown: true })
    try {
      await this.#parts.makeVersion(cellId)
    } catch (error) {
      if (!isRemoved || !isNotHere(error)) throw error
    }
    return this.#cells.get(cellId)?.isKnown === true
  }

  /** @returns whether none is left */
  async #removeMarks(cellId: string, options: CallOptions): Promise<boolean> {
    const { marks: tried = [] } = this.#cells.get(cellId) ?? {}
    const left = await removeMarks(this.#parts.objectStore, tried, options)
    const cell = this.#cells.get(cellId)
    if (cell === undefined) return true
    const marks = cell.marks.filter((mark) => left.includes(mark) || !tried.includes(mark))
    this.#cells.set(cellId, { ...cell, marks })
    return marks.length === 0
  }
}

/** The cell is deleted, or its files are lost: it has no history that a version could begin. */
function isNotHere(error: unknown): boolean {
  return ['cell_not_found', 'cell_restoring', 'no_backup'].some(
    (code) => isCellError(error) && error.code === code,
  )
}
