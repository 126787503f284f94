import type { CellCutter } from '../../backup/changes/cell-cutter.ts'
import type { InstallOptions } from '../../backup/restore/cell-installer.ts'
import type { CellRecord } from '../../catalog/cell-registry.ts'
import type { SqlPolicy } from '../../engine/cell-settings.ts'
import type { QuarantineState } from '../../engine/quarantine.ts'
import type { CellOperation } from '../../service/operations.ts'
import type { StoreSettings } from '../../store/settings.ts'
import type { LogMessage } from './log-message.ts'
import type { WireError } from './wire-error.ts'

/** A worker's descriptors: it reads messages from the first, and writes its own to the second. */
export const REQUESTS_FD = 3
export const ANSWERS_FD = 4

/** The first message to a worker. */
export interface WorkerSettings {
  /** The process that started the worker. */
  nodePid: number
  dataDir: string
  /** Whether the changes of cells are tracked, for their backups. */
  hasObjectStore: boolean
  storeId: string
  /** Epoch milliseconds. */
  storeCreatedAt: number
  settings: Omit<StoreSettings, 'clock' | 'random' | 'log'>
  /** The cells whose `incoming.db` is being built: for all others, that file is the left-over of a crash. */
  building: string[]
  /** For the SQL in {@link CellOperation}s. */
  sqlPolicy: SqlPolicy
  /** Bytes of values in one answer of several parts. */
  answerBytesMax: number
}

/** The operations on one cell. Numbers count through all cells of the batch, in order. */
export interface BatchCell {
  cellId: string
  /** The cell's record in the catalog; undefined if the worker has it. */
  record: CellRecord | undefined
  operations: CellOperation[]
}

/** A call of the cell's cutter, without the cell's id. */
export type CutCall = {
  [Method in keyof CellCutter]: {
    method: Method
    args: Parameters<CellCutter[Method]> extends [string, ...infer Args] ? Args : never
  }
}[keyof CellCutter]

/** Work on one cell outside the batches. Most of it takes long. */
export type WorkerTask =
  /** A step of the cell's backup. */
  | { task: 'cut'; cellId: string; call: CutCall }
  /** A restore of the cell begins. Answered at once, as is `install`. */
  | { task: 'begin-restore'; cellId: string }
  /** Switches to the restored database. */
  | { task: 'install'; cellId: string; options: InstallOptions }
  | { task: 'collect'; cellId: string }
  | { task: 'release'; cellId: string }
  /** Why the cell is kept closed. Answered at once, as is `last-transaction`. */
  | { task: 'quarantine'; cellId: string }
  /** Reads the cell's commit marker. */
  | { task: 'last-transaction'; cellId: string }

export interface WorkerTaskResults {
  cut: unknown
  /** Whether the cell's data is on this machine. */
  'begin-restore': boolean
  install: undefined
  collect: undefined
  release: undefined
  quarantine: QuarantineState | undefined
  'last-transaction': string | undefined
}

export type ToWorker =
  | { type: 'settings'; settings: WorkerSettings }
  /** One at a time: the next follows when this one is done. `name` is unique across all batches of all nodes. */
  | {
      type: 'batch'
      name: string
      /** Cells whose records the worker may drop: they come again with the next use. */
      forget: string[]
      cells: BatchCell[]
    }
  | { type: 'task'; id: number; record: CellRecord | undefined; task: WorkerTask }
  | { type: 'abort'; id: number }
  /** The bucket is another one than before: nothing is stored there yet. */
  | { type: 'nothing-stored' }
  /** The cells whose `incoming.db` is being built, as in the settings. */
  | { type: 'building'; cellIds: string[] }
  /** Finish, close every cell, and exit. */
  | { type: 'stop' }

/** An operation's number in its batch, and its outcome. */
export type WireOutcome =
  | [index: number, value?: unknown]
  | [index: number, value: undefined, error: WireError]

export type FromWorker =
  | { type: 'ready' }
  /** A tenant's statement starts: the time until the next message counts as its own. */
  | { type: 'started'; index: number }
  /**
   * Other work for an operation starts, such as opening its cell: until the next message, the processor's time counts as the
   * operation's. Without an index, what follows is nobody's: the worker waits for fsyncs.
   */
  | { type: 'upkeep'; index: number | undefined }
  /** Final without a transaction; otherwise provisional until it is committed, and the COMMIT follows. */
  | { type: 'results'; outcomes: WireOutcome[]; transaction: string | undefined }
  | { type: 'committed'; transaction: string }
  | { type: 'done' }
  | { type: 'reply'; id: number; value: unknown; error: WireError | undefined }
  | { type: 'changed'; cellId: string }
  | { type: 'expiry' }
  | LogMessage
