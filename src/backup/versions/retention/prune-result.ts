import type { CallOptions } from '../../object-store/object-store.ts'
import type { BackupOrigin } from '../backup-types.ts'
import type { KeepReason } from './retention-verdicts.ts'

/** How old versions are removed. */
export interface PruneOptions extends CallOptions {
  /** Only says what would be done. */
  dryRun?: boolean
}

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
