import type { CommitChanges } from '../../engine/watch/commit-recorder.ts'
import type { CellError } from '../../errors.ts'
import type { ResetReason } from './cell-change.ts'

/** A place between two changes of a cell. */
export interface Position {
  epoch: string
  /** Commits of the epoch before this place. */
  commits: number
}

/** Bytes that a change takes in memory besides its names. */
const CHANGE_BYTES = 96

export function idOf({ epoch, commits }: Position): string {
  return `${epoch}-${commits}`
}

/** @returns undefined if no id of ours looks like that */
export function positionOf(id: string): Position | undefined {
  const [, epoch, commits] = /^([0-9a-f]{16})-(\d{1,15})$/.exec(id) ?? []
  return epoch === undefined ? undefined : { epoch, commits: Number(commits) }
}

/**
 * The newest commits of one cell, numbered. All who watch the cell read them here, each at its own place, so a reader costs
 * no memory. A new epoch begins with each reset: numbers of another one mean nothing.
 */
export class ChangeWindow {
  readonly cellId: string
  /** The account that has the cell; empty if none has. */
  readonly owner: string
  /** How many watch it. */
  readers = 0
  /** Set once there will be no further change: what readers are told then. */
  ended: CellError | undefined
  /** Called when there is something to read, and when it ended. */
  readonly waiting = new Set<() => void>()
  /** Called when commits were dropped. */
  readonly dropped = new Set<() => void>()
  #epoch: string
  #reason: ResetReason = 'start'
  /** Commits of the epoch that were dropped. */
  #droppedCount = 0
  #changes: CommitChanges[] = []
  #bytes = 0

  constructor(cellId: string, owner: string, epoch: string) {
    this.cellId = cellId
    this.owner = owner
    this.#epoch = epoch
  }

  get bytes(): number {
    return this.#bytes
  }

  get isEmpty(): boolean {
    return this.#changes.length === 0
  }

  /** After the newest commit. */
  get end(): Position {
    return { epoch: this.#epoch, commits: this.#droppedCount + this.#changes.length }
  }

  /** Where a reader of another epoch goes on: right after the reset. */
  get beginning(): Position {
    return { epoch: this.#epoch, commits: 0 }
  }

  /** Why the epoch began. */
  get reason(): ResetReason {
    return this.#reason
  }

  get epoch(): string {
    return this.#epoch
  }

  /** Whether the commits after a place are all here. */
  holds({ epoch, commits }: Position): boolean {
    return epoch === this.#epoch && commits >= this.#droppedCount && commits <= this.end.commits
  }

  /** The commit after a place that the window {@link holds}; undefined if there is none yet. */
  after({ commits }: Position): CommitChanges | undefined {
    return this.#changes[commits - this.#droppedCount]
  }

  add(changes: CommitChanges): void {
    this.#changes.push(changes)
    this.#bytes += bytesOf(changes)
  }

  dropOldest(): void {
    const oldest = this.#changes.shift()
    if (oldest === undefined) return
    this.#droppedCount++
    this.#bytes -= bytesOf(oldest)
  }

  reset(epoch: string, reason: ResetReason): void {
    this.#epoch = epoch
    this.#reason = reason
    this.#changes = []
    this.#droppedCount = 0
    this.#bytes = 0
  }
}

function bytesOf({ keys, tables }: CommitChanges): number {
  let bytes = CHANGE_BYTES
  for (const name of [...(keys ?? []), ...(tables ?? [])]) bytes += 2 * name.length + 16
  return bytes
}
