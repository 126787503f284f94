import type { LogPosition } from './cell-log.ts'
import type { Segment } from './segments.ts'

/** The copy of a base may begin. */
export interface BaseStart {
  id: string
  databasePath: string
  /** Bytes of the database file to copy. The file may become longer or shorter meanwhile. */
  size: number
  /** The cell is new, and this is its database as it was made: no log changes it meanwhile. */
  isOrigin?: 'kept' | 'live' | undefined
}

export interface Cut {
  /** Epoch milliseconds. */
  cutAt: number
  sqliteVersion: string
  /** Files that stay as they are until the backup is stored or has failed. */
  segments: Segment[]
  /** Undefined if the cell is not shipped. */
  log?: LogPosition | undefined
  /** The cell was restored to this version, and has not changed since. */
  repeats?: string | undefined
}

/** The copy has ended: with these logs applied, it is the database at the moment of the cut. */
export interface BaseCut extends Cut {
  kind: 'base'
  id: string
}

/** The changes since the last version of the chain. */
export interface IncrementalCut extends Cut {
  kind: 'incremental'
  /** The versions that the incremental continues, oldest first. */
  chain: string[]
}

/** A backup that is in the object store. */
export interface StoredBackup {
  version: string
  /** As it was requested. */
  kind: 'snapshot' | 'incremental'
  cut: BaseCut | IncrementalCut
}

/**
 * What a backup asks of the process that has the cell open: to cut, and to keep the files that the cut names. Reading,
 * compressing and uploading them is the caller's, in this process or another. All arguments and results are plain data
 * that survive JSON.
 *
 *     beginBase ── copy the database file ──▶ endBase ── store ──▶ stored
 *     cutIncremental ── store the segments ──▶ stored
 *     any of them ──▶ failed
 *
 * The caller makes one backup of a cell at a time. If the process dies, another one can take the next call.
 */
export interface CellCuts {
  /** From here on every log is kept. */
  beginBase(beginsHistory: boolean): Promise<BaseStart>
  /**
   * Cuts at the end of the copy.
   *
   * @param version the name of the backup, whose time is used up from here on, even if the upload fails
   * @throws `busy` if the copy and the kept logs do not hold everything: begin again
   */
  endBase(id: string, version: string): Promise<BaseCut>
  /** @returns undefined if a base is due */
  cutIncremental(version: string, versionsMax: number): Promise<IncrementalCut | undefined>
  stored(backup: StoredBackup): Promise<void>
  failed(): Promise<void>
}
