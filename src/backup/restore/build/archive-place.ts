import type { Limits } from '../../../base/options/limits.ts'
import type { Expected } from '../../archive/manifest.ts'

/** Whose backup it has to be, and how large it may be. */
export interface Acceptable extends Expected {
  limits: Limits
  /** Bytes that the restore must leave free on the disk. Undefined: it may fill the disk. */
  spareBytes?: number | undefined
}

/** An archive of a chain, and where its database goes. Plain data: it can be sent to a thread. */
export interface ArchivePlace {
  /** The database under restore. */
  file: string
  version: string
  /** The versions that were applied to it, in their order. */
  before: readonly string[]
  expected: Acceptable
}
