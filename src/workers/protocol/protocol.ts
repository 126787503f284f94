import type { ManifestHead } from '../../backup/archive/manifest.ts'
import type {
  BackupKind,
  BackupProgressEvent,
  BackupResult,
  RestoreResult,
} from '../../backup/versions/backup-types.ts'
import type { CellRecord } from '../../catalog/cell-registry.ts'
import type { SqlPolicy } from '../../engine/cell-settings.ts'
import type { QuarantineState } from '../../engine/quarantine.ts'
import type { CellOperation } from '../../service/operations.ts'
import type { StoreSettings } from '../../store/settings.ts'
import type { WireError } from './wire-error.ts'

/** Descriptors of a worker: it reads messages from one, and writes its own to the other. */
export const REQUESTS_FD = 3
export const ANSWERS_FD = 4

/** What a worker is told once, before anything else. */
export interface WorkerSettings {
  /** Whose worker it is. */
  nodePid: number
  dataDir: string
  objectStore: string | undefined
  storeId: string
  /** Epoch milliseconds. */
  storeCreatedAt: number
  settings: Omit<StoreSettings, 'clock' | 'random' | 'log'>
  /** For what is run through {@link CellOperation}s. */
  sqlPolicy: SqlPolicy
  /** Bytes of values in one answer of several parts. */
  answerBytesMax: number
}

/** Operations on one cell. They are numbered through the batch, in order. */
export interface BatchCell {
  cellId: string
  /** What the catalog says of the cell, where the worker has not been told yet. */
  record: CellRecord | undefined
  operations: CellOperation[]
}

/** Work on one cell that takes its time, beside the batches. */
export type WorkerTask =
  | { task: 'backup'; cellId: string; kind: BackupKind }
  | { task: 'restore'; cellId: string; version: string | undefined; accountId: string | undefined }
  | { task: 'ensure-local'; cellId: string }
  | { task: 'collect'; cellId: string }
  | { task: 'release'; cellId: string }
  /** Why the cell is kept closed; answered at once, as the next. */
  | { task: 'quarantine'; cellId: string }
  /** What the last transaction of the cell that a batch has made says of itself. */
  | { task: 'last-transaction'; cellId: string }

export interface WorkerTaskResults {
  backup: BackupResult
  restore: RestoreResult
  'ensure-local': undefined
  collect: undefined
  release: undefined
  quarantine: QuarantineState | undefined
  'last-transaction': string | undefined
}

export type ToWorker =
  | { type: 'settings'; settings: WorkerSettings }
  /** One at a time: the next is sent when this one is done. `name` is unique among all batches of all nodes. */
  | {
      type: 'batch'
      name: string
      /** Cells whose records it need not keep: they come again with the next use. */
      forget: string[]
      cells: BatchCell[]
    }
  | { type: 'task'; id: number; record: CellRecord | undefined; task: WorkerTask }
  | { type: 'abort'; id: number }
  /** The catalog knows a restored cell again. */
  | { type: 'recorded'; id: number; record: CellRecord | undefined; error: WireError | undefined }
  /** Finish, close every cell, and end. */
  | { type: 'stop' }

/** An operation's place in its batch, and what came of it. */
export type WireOutcome =
  | [index: number, value?: unknown]
  | [index: number, value: undefined, error: WireError]

export type FromWorker =
  | { type: 'ready' }
  /** A tenant's statement begins: until the next message, the time is its own. */
  | { type: 'started'; index: number }
  /** What follows is the worker's own affair: a cell is opened, say. */
  | { type: 'upkeep' }
  /** Final, unless a transaction is named: then only once that is committed. */
  | { type: 'results'; outcomes: WireOutcome[]; transaction: string | undefined }
  | { type: 'committed'; transaction: string }
  | { type: 'done' }
  | { type: 'reply'; id: number; value: unknown; error: WireError | undefined }
  | { type: 'progress'; id: number; event: BackupProgressEvent }
  /** A cell was restored. The worker waits for `recorded`. */
  | { type: 'restored'; id: number; cellId: string; manifest: ManifestHead }
  | { type: 'changed'; cellId: string }
  | { type: 'expiry' }
  | {
      type: 'log'
      level: 'info' | 'warn' | 'error'
      fields: object
      err?: WireError | undefined
      message: string
    }
