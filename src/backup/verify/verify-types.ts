import { FLAG, maybe, type Shape } from '../../base/options/option-shapes.ts'
import type { DatabaseContents } from '../restore/build/restore-database.ts'
import { BACKUP, MOMENT } from '../versions/backup-options.ts'
import type { BackupKind, BackupOptions } from '../versions/backup-types.ts'

/** Which version to prove, and how thoroughly. */
export interface VerifyOptions extends Omit<BackupOptions, 'permit'> {
  /** Default: the one that a total loss would bring back. That is the newest, or the restored one until there is a newer. */
  version?: string
  /** Runs SQLite's `integrity_check` in place of `quick_check`: it also compares each index with its table. */
  deep?: boolean | undefined
}

const { signal, onProgress, requestId } = BACKUP
export const VERIFY: Shape<VerifyOptions> = {
  signal,
  onProgress,
  requestId,
  version: MOMENT.version,
  deep: maybe(FLAG),
}

/** What a restored database holds. */
export interface ProvenContents extends DatabaseContents {
  /** Bytes of the restored database. */
  sizeBytes: number
}

/** What was proven. */
export interface VerifyResult extends ProvenContents {
  version: string
  kind: BackupKind
  /** The objects that were read: the version's chain, its base first, and the version. */
  objects: string[]
  /** Their bytes. */
  storedBytes: number
  deep: boolean
  /** Epoch milliseconds. */
  provenAt: number
  /** Milliseconds. */
  durationMs: number
}

/** What is to be proven. */
export interface VerifyTask {
  cellId: string
  /** Undefined for the one that a total loss would bring back. */
  version: string | undefined
  deep: boolean
  /** What must be there if no version is named: the one that this machine stored last. */
  stored: string | undefined
  /** Whether this machine knows that something is stored. */
  isStored: boolean
}
