import { type WalHeader, WalReader } from '../../../engine/wal/wal-file.ts'
import type { BackupProgress } from '../backup-progress.ts'
import { type Segment, Segments } from './segments.ts'

export interface LiveLog extends WalHeader {
  /** The number that it gets. */
  sequence: number
  /** How much of it is kept already. */
  kept: number
}

/** A log that is kept before a checkpoint overwrites it, and the numbers that tell it from the others of its cell. */
export class KeptLogs {
  readonly segments: Segments
  /** The newest number in use. */
  newest: number
  /** Segments up to this one are uploaded, or will be: none of them may grow. */
  sealed: number

  constructor(directory: string, { chain, base, history }: BackupProgress) {
    this.segments = new Segments(directory)
    this.newest = Math.max(chain?.newest ?? 0, base?.newest ?? 0, history?.newest ?? 0)
    // Without a history an earlier process may have named any of them to an upload that still runs.
    const sealed = history === null ? this.newest : Math.min(history.sealed, this.newest)
    this.sealed = Math.max(sealed, base?.from ?? 0)
  }

  list(): Segment[] {
    return this.segments.list()
  }

  /** @param after frames that nobody needs */
  keep(wal: string, frames: number, after: number): void {
    this.newest = this.segments.keep(wal, frames, this.newest, this.sealed, after)
  }

  seal(): void {
    this.sealed = this.newest
  }

  /** The log, as it would be kept now. @throws `Error` if it has no header */
  live(wal: string, kept: readonly Segment[]): LiveLog {
    using log = new WalReader(wal)
    return { ...log.header, ...this.numberOf(log.header.salts, kept) }
  }

  /** The number that a log gets when it is kept; how much of it is kept already. */
  numberOf(salts: string, kept: readonly Segment[]): { sequence: number; kept: number } {
    const last = kept.at(-1)
    if (last?.sequence !== this.newest || last.salts !== salts) return { sequence: this.newest + 1, kept: 0 }
    return { sequence: this.newest > this.sealed ? this.newest : this.newest + 1, kept: last.frames }
  }
}
