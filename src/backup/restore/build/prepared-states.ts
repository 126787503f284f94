import fs from 'node:fs'
import path from 'node:path'
import type { Clock, Timer } from '../../../base/clock.ts'
import { CellPaths } from '../../../base/files/store-paths.ts'
import type { JoinedWal } from '../../shipping/cell-pieces.ts'
import type { RestoreTarget } from '../target/restore-target.ts'

/** A cell that has not come by then does not come, and would only take up the disk. */
const KEPT_MS = 60_000

/** A built and proven state of a cell, and what of its log is in it. */
interface PreparedState {
  version: string
  wals: readonly JoinedWal[]
  expiry: Timer
}

/** A state from which a restore goes on. */
export interface TakenState {
  /** Its database, which is the restore's now. */
  file: string
  /** As many of the target's logs are in it whole. The next one may be in it in part, and is applied again: that changes nothing. */
  wals: number
}

/**
 * States of cells that are about to come to this node, in files of the spool. They are only a head start: what a cell is restored to
 * is found out when it is restored, and a state that is not the beginning of that is not used. None outlives its process.
 */
export class PreparedStates {
  readonly #folder: string
  readonly #clock: Clock
  readonly #states = new Map<string, PreparedState>()

  constructor(folder: string, clock: Clock) {
    this.#folder = folder
    this.#clock = clock
  }

  /** Where the state of a cell is built. */
  pathsOf(cellId: string): CellPaths {
    return new CellPaths(path.join(this.#folder, `prepared-${cellId}`))
  }

  /** It is built and proven. */
  add(cellId: string, { manifest: { version }, wals }: RestoreTarget): void {
    this.#states.get(cellId)?.expiry.cancel()
    const expiry = this.#clock.setTimer(() => this.drop(cellId), KEPT_MS)
    this.#states.set(cellId, { version, wals, expiry })
  }

  /** @returns undefined if there is no state from which this one can be reached. The caller drops the cell's afterwards */
  find(cellId: string, { manifest, wals }: RestoreTarget): TakenState | undefined {
    const state = this.#states.get(cellId)
    if (state?.version !== manifest.version) return undefined
    const last = state.wals.length - 1
    const isBeginning = state.wals.every((wal, i) => {
      const now = wals[i]
      return now !== undefined && (i < last ? isSame(wal, now) : isBeginningOf(wal, now))
    })
    if (!isBeginning) return undefined
    const isWhole = last < 0 || isSame(state.wals[last] as JoinedWal, wals[last] as JoinedWal)
    return { file: this.pathsOf(cellId).restoreTarget, wals: isWhole ? state.wals.length : last }
  }

  drop(cellId: string): void {
    const state = this.#states.get(cellId)
    if (state === undefined) return
    state.expiry.cancel()
    this.#states.delete(cellId)
    this.remove(cellId)
  }

  /** Removes what a build has left. */
  remove(cellId: string): void {
    fs.rmSync(this.pathsOf(cellId).directory, { recursive: true, force: true })
  }

  /** At the end of the process. */
  close(): void {
    for (const cellId of [...this.#states.keys()]) this.drop(cellId)
  }
}

/** The log goes on where the other one ended. */
function isBeginningOf(before: JoinedWal, now: JoinedWal): boolean {
  return (
    before.sequence === now.sequence &&
    before.pageSize === now.pageSize &&
    before.pieces.every(({ ref, piece, to }, i) => {
      const other = now.pieces[i]
      const isSamePiece = other?.ref.key === ref.key && other.piece.member === piece.member
      return isSamePiece && other.piece.from === piece.from && other.to === to
    })
  )
}

function isSame(before: JoinedWal, now: JoinedWal): boolean {
  return (
    before.frames === now.frames && before.pieces.length === now.pieces.length && isBeginningOf(before, now)
  )
}
