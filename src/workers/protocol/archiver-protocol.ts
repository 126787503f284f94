import type {
  ArchiverRequest,
  BackupRequest,
  BranchRequest,
  RestoreRequest,
  VerifyRequest,
} from '../../backup/archiver/archiver.ts'
import type { RetentionPlans } from '../../backup/archiver/backup-destination.ts'
import type { CellPort } from '../../backup/archiver/cell-port.ts'
import type { Need } from '../../backup/archiver/job.ts'
import type { JobQueueLimits } from '../../backup/archiver/job-queue.ts'
import type { CollectedLook, CollectLimits } from '../../backup/changes/log/cell-log.ts'
import type { PackedPiece } from '../../backup/changes/log/packed-logs.ts'
import type { EndedCall } from '../../backup/object-store/object-store-calls.ts'
import type { Flushed } from '../../backup/shipping/flushes.ts'
import type { ShippingSettings } from '../../backup/shipping/shipper.ts'
import type { ShippingState } from '../../backup/shipping/shipping-status.ts'
import type { BackupProgressEvent } from '../../backup/versions/backup-types.ts'
import type { Limits } from '../../base/options/limits.ts'
import type { ProcessIdentity } from '../../catalog/directory-lock.ts'
import type { LogMessage } from './log-message.ts'
import type { WireError } from './wire-error.ts'

/** The messages between a node and its archiver. They have the same descriptors and encoding as those to workers. */

export interface ArchiverSettings {
  /** Whose archiver it is: it ends with it. */
  node: ProcessIdentity
  dataDir: string
  objectStore: string
  storeId: string
  /** Of this node's own objects; empty without a cluster. */
  prefix: string
  /** The node's; undefined as long as it has none. */
  epoch: number | undefined
  limits: Limits
  plans: RetentionPlans
  queue: JobQueueLimits
  /** Undefined: what cells commit is not shipped. */
  shipping: (ShippingSettings & { historyMs: number }) | undefined
}

export type ArchiverJob =
  | { job: 'backup'; request: BackupRequest }
  | { job: 'restore'; request: RestoreRequest }
  | { job: 'branch'; request: BranchRequest }
  | { job: 'verify'; request: VerifyRequest }
  | { job: 'prepare'; request: ArchiverRequest }
  | { job: 'settle'; request: ArchiverRequest }

/** The cells as the node has them for its archiver: it passes on what it collects as it came. */
export interface ServedCells extends Omit<CellPort, 'collectLogs'> {
  collectLogs(limits: CollectLimits): Promise<CollectedLook<PackedPiece>>
}

/** What the archiver asks of the cells. */
export type CellCall = {
  [Method in keyof ServedCells]: { method: Method; args: Parameters<ServedCells[Method]> }
}[keyof ServedCells]

export type ToArchiver =
  | { type: 'settings'; settings: ArchiverSettings }
  | { type: 'job'; id: number; job: ArchiverJob }
  | { type: 'abort'; id: number }
  /** The node has taken an epoch. */
  | { type: 'epoch'; epoch: number }
  | { type: 'raise'; cellId: string; need: Need }
  /** Ship what the cells have committed. */
  | { type: 'flush'; id: number; cells?: readonly string[] | undefined }
  | { type: 'answer'; id: number; value: unknown; error: WireError | undefined }
  /** Does it still answer? */
  | { type: 'ping' }
  /** Finish within the deadline, and exit. */
  | { type: 'stop'; deadlineMs: number }

export type FromArchiver =
  | { type: 'ready' }
  | { type: 'pong' }
  /** A job's turn has come. */
  | { type: 'begun'; id: number }
  | { type: 'progress'; id: number; event: BackupProgressEvent }
  | { type: 'reply'; id: number; value: unknown; error: WireError | undefined }
  | { type: 'flushed'; id: number; value: Flushed | undefined; error: WireError | undefined }
  /** How far shipping is, after each tick. */
  | { type: 'shipping'; state: ShippingState }
  /** The bucket is another one than before, where nothing is stored yet. */
  | { type: 'moved' }
  /** Another node has a newer epoch. */
  | { type: 'taken-over'; error: WireError }
  /** A call to the object store has ended. */
  | { type: 'object-store'; ended: EndedCall }
  | { type: 'call'; id: number; call: CellCall }
  | LogMessage
