import type { RestoreStart } from '../../backup/archiver/cell-port.ts'
import type { HistoryReset } from '../../backup/changes/change-trackers.ts'
import type { CutCall } from '../../backup/changes/log/cell-cutter.ts'
import type { CollectLimits, ShippedPlace } from '../../backup/changes/log/cell-log.ts'
import type { InstallOptions } from '../../backup/restore/install/cell-installer.ts'
import type { CellRecord } from '../../catalog/cell-registry.ts'
import type { ProcessIdentity } from '../../catalog/directory-lock.ts'
import type { SqlPolicy } from '../../engine/cell-settings.ts'
import type { MemoryBound } from '../../engine/open-memory.ts'
import type { QuarantineState } from '../../engine/quarantine.ts'
import type { WalEnd } from '../../engine/wal/wal-end.ts'
import type { CommitChanges } from '../../engine/watch/commit-recorder.ts'
import type { CellAnswer, CellOperation, CellRequest, RequestBounds } from '../../service/operations.ts'
import type { StoreSettings } from '../../store/settings/settings.ts'
import type { LogMessage } from './log-message.ts'
import type { Outbox } from './outbox.ts'
import type { WireError } from './wire-error.ts'

/** A worker's descriptors: it reads messages from the first, and writes its own to the second. */
export const REQUESTS_FD = 3
export const ANSWERS_FD = 4

/** The first message to a worker. */
export interface WorkerSettings {
  /** Whose worker it is: it ends with it. */
  node: ProcessIdentity
  dataDir: string
  /** Whether the changes of cells are tracked, for their backups. */
  hasObjectStore: boolean
  settings: Omit<StoreSettings, 'clock' | 'random' | 'log'>
  /** The cells whose `incoming.db` is being built: for all others, that file is the left-over of a crash. */
  building: string[]
  /** For the SQL in {@link CellOperation}s. */
  sqlPolicy: SqlPolicy
  /** On what its open cells keep in memory. */
  memory: MemoryBound
  bounds: RequestBounds
  /** Milliseconds after which a batch starts no further operation. */
  sliceMs: number
  /** Milliseconds from which on a statement is slow; undefined: none is. */
  slowMs: number | undefined
}

/** Of a worker: what it has done since its start, and its open cells. It comes with each batch's end: what tasks did comes with the next. */
export interface WorkerCounts {
  statements: number
  commits: number
  cellsOpen: number
  /** The account whose open cells took most of its memory, if they took too much and it uses so much that it may end. */
  heaviest?: string | undefined
}

/** The operations on one cell. Numbers count through all cells of the batch, in order. */
export interface BatchCell {
  cellId: string
  /** The cell's record in the catalog; undefined if the worker has it. */
  record: CellRecord | undefined
  operations: CellOperation[]
}

/** An operation in a message. Of a request, the body is the place of its part: see messages.ts. */
export type PackedOperation = Exclude<CellOperation, CellRequest> | PackedRequest
type PackedRequest = Omit<Extract<CellOperation, CellRequest>, 'body'> & { body?: number | undefined }
export type PackedCell = Omit<BatchCell, 'operations'> & { operations: PackedOperation[] }
/** An answer in a message: its JSON is the place of its part. */
export type PackedAnswer = Omit<CellAnswer, 'json'> & { json: number }

/** Work on one cell outside the batches. Most of it takes long. */
export type WorkerTask =
  /** A step of the cell's backup. */
  | { task: 'cut'; cellId: string; call: CutCall }
  /** A restore of the cell begins. Answered at once, as are the next two. */
  | { task: 'begin-restore'; cellId: string }
  /** A mark in the object store names the version to which the cell is restored. */
  | { task: 'note-mark'; cellId: string; name: string }
  /** Switches to the restored database. */
  | { task: 'install'; cellId: string; options: InstallOptions }
  | { task: 'collect-expired'; cellId: string }
  /** Copies the cell into a file of the spool. */
  | { task: 'export'; cellId: string; file: string }
  /** Closes the cell for another worker, unless it is in use here. */
  | { task: 'close'; cellId: string }
  /** Gives up what the cell has not shipped. Answered at once. */
  | { task: 'drop-history'; cellId: string }
  /** Finds what a cell has not shipped, whose process has ended or has given it away. */
  | { task: 'look-at-log'; cellId: string }
  /** Closes a deleted cell, and removes its local state. */
  | { task: 'release'; cellId: string }
  /** Why the cell is kept closed. Answered at once, as is `was-committed`. */
  | { task: 'quarantine-state'; cellId: string }
  /**
   * Whether anything was committed after `before`, or it is known (undefined), and makes sure that it is on disk. It is asked of a
   * transaction whose worker was killed. Null: nobody can tell, since another program has moved the WAL into the database.
   * It has to be the first thing that a worker does with the cell: all else could move the WAL into the database.
   */
  | { task: 'was-committed'; cellId: string; before: WalEnd | undefined }

export interface WorkerTaskResults {
  cut: unknown
  'begin-restore': Omit<RestoreStart, 'record'>
  'note-mark': undefined
  install: undefined
  'collect-expired': undefined
  /** Bytes of the file. */
  export: number
  close: boolean
  'drop-history': undefined
  'look-at-log': undefined
  release: undefined
  'quarantine-state': QuarantineState | undefined
  'was-committed': boolean | null
}

export type ToWorker =
  | { type: 'settings'; settings: WorkerSettings }
  /** One at a time: the next follows when this one is done. */
  | {
      type: 'batch'
      /** Cells whose records the worker may drop: they come again with the next use. */
      forget: string[]
      cells: PackedCell[]
    }
  | { type: 'task'; id: number; record: CellRecord | undefined; task: WorkerTask }
  | { type: 'abort'; id: number }
  /** From now on, or no longer: tell of the cell's commits. */
  | { type: 'watch'; cellId: string; isWatched: boolean }
  /** Answered with `pong`, as soon as the worker reads messages. */
  | { type: 'ping' }
  /** Of all cells. Answered with `histories-reset`. */
  | { type: 'reset-histories'; reset: HistoryReset }
  /** The cells whose `incoming.db` is being built, as in the settings. */
  | { type: 'building'; cellIds: string[] }
  /** Answered with a `reply`: what its cells have committed and not shipped. */
  | { type: 'collect-logs'; id: number; limits: CollectLimits }
  /** Everything before these places is in the object store; those of other workers' cells too. */
  | { type: 'logs-shipped'; places: ShippedPlace[] }
  /** Finish, close every cell, and exit. */
  | { type: 'stop' }

/** A transaction whose COMMIT follows. */
export interface ProvisionalTransaction {
  /** Unique in its batch. */
  number: number
  /** Where the WAL ended when it began: whatever is committed after that is this transaction. */
  before: WalEnd
}

/** An operation's number in its batch, and its outcome. */
export type WireOutcome =
  | [index: number, value?: unknown]
  | [index: number, value: undefined, error: WireError]

export type FromWorker =
  | { type: 'ready' }
  | { type: 'pong' }
  /** Of all cells, as it was asked for: from here on nothing older is saved. */
  | { type: 'histories-reset' }
  /**
   * A tenant's statement starts: the time until the next message counts as its own. `statementMs` bounds it further, if
   * the worker has found that in the request.
   */
  | { type: 'started'; index: number; statementMs?: number | undefined }
  /**
   * Other work for an operation starts, such as opening its cell: until the next message, the processor's time counts as the
   * operation's. Without an index, what follows is nobody's: the worker waits for fsyncs.
   */
  | { type: 'overhead'; index: number | undefined }
  /**
   * Other work for a cell starts: a task's, or the closing of a cell to make room. Without a cell, that work is over, and
   * the time is again that of the operation that the worker told of before.
   */
  | { type: 'working'; cellId: string | undefined }
  /** Final without a transaction; otherwise provisional until it is committed, and the COMMIT follows. */
  | {
      type: 'results'
      outcomes: WireOutcome[]
      transaction: ProvisionalTransaction | undefined
      /** Without a transaction: one of them may have committed by itself, as `PRAGMA user_version = 2` does. */
      hasCommitted?: true | undefined
    }
  /** The transaction is on disk. */
  | { type: 'committed'; transaction: number }
  /** Its COMMIT has succeeded, and the fsync follows. Told only where the WAL may be moved into the database before that. */
  | { type: 'unsynced'; transaction: number }
  /**
   * An operation that runs by itself is about to commit what began where the WAL ended `before`; undefined of what only reads. Once
   * that is over and the operation goes on, it has `started` again.
   */
  | { type: 'committing'; index: number; before?: WalEnd | undefined }
  /** No hold has the cell any more. */
  | { type: 'released'; cellId: string }
  /** A statement of an operation took long. It is over, and `statement` is its shape. */
  | { type: 'slow'; index: number; statement: string; ms: number }
  /**
   * The batch is over. `returned` operations have not started: they had no time, or are also `held` and wait for the end of a hold,
   * of which `released` tells. `spent` are the milliseconds of the
   * processor that cells took, by their number in the batch; what is too little to count is left out.
   */
  | {
      type: 'done'
      returned?: number[] | undefined
      held?: number[] | undefined
      spent?: [cell: number, ms: number][] | undefined
      counts?: WorkerCounts | undefined
    }
  | { type: 'reply'; id: number; value: unknown; error: WireError | undefined }
  | { type: 'changed'; cellId: string }
  /** A commit of a watched cell is on disk. Comes before any message that has its operations answered. */
  | { type: 'commit'; cellId: string; changes: CommitChanges }
  /** Commits of a watched cell may be on disk that no message told of. */
  | { type: 'interrupted'; cellId: string }
  | { type: 'expiry' }
  /** The worker has given a cell away that has something to ship. */
  | { type: 'unshipped'; cellId: string }
  | LogMessage

/** What a worker says to its node. */
export type WorkerOutbox = Outbox<FromWorker>
