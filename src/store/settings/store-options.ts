import type { ObjectStore } from '../../backup/object-store/object-store.ts'
import type { Clock } from '../../base/clock.ts'
import type { Log } from '../../base/log.ts'
import type { Limits } from '../../base/options/limits.ts'
import type { Some } from '../../base/options/option-shapes.ts'
import type { Quotas } from '../../catalog/account-quotas.ts'
import type { Ownership } from '../../catalog/assignment/ownership.ts'
import type { Durability, SqlPolicy } from '../../engine/cell-settings.ts'
import type { OwnerFunctionsOptions } from '../../engine/owner-functions.ts'
import type { WatchSettings } from '../watch/change-hub.ts'

/**
 * Automatic backups of cells, wherever there is an object store: of a cell that has changed, and of no other. The catalog is
 * always backed up there.
 */
export interface BackupSettings {
  /** Milliseconds after a cell's last snapshot until the next one, if the cell has changed; by default a day. Null: never. */
  snapshotEveryMs?: number | null | undefined
  /** Milliseconds after a cell's last backup until the next incremental; by default 15 minutes. Null: never. */
  incrementalEveryMs?: number | null | undefined
  /**
   * Which versions of a cell stay, by their age; default `all:1d,hourly:3d,daily:30d,monthly:12mo`. `all:forever` keeps all
   * but those that tenants made, which follow `keepTenant`.
   */
  keep?: string | undefined
  /** Which versions stay that tenants made over HTTP, in addition; default `all:1d,daily:30d`. */
  keepTenant?: string | undefined
  /** False: versions are removed only by `store.retention.prune()`. Default true. */
  prune?: boolean | undefined
  /** Milliseconds in which each cell's newest backup is restored once, to prove it; by default a week. Null: never. */
  drillEveryMs?: number | null | undefined
  /**
   * Milliseconds after which what a cell has committed is in the object store; by default 10,000, at least 1,000 and at most an
   * hour. Null: only backups go there.
   */
  maxLagMs?: number | null | undefined
  /** Milliseconds in which a cell can be restored to any moment; by default seven days. */
  historyMs?: number | undefined
  /**
   * Bytes of commits that may wait if the object store does not answer, or is slow; by default 1 GiB. Beyond that, the largest cells
   * of the account with the most of them get new versions once it answers, and moments are missing.
   */
  logBytesMax?: number | undefined
  /** Backups that run at the same time; 4 by default. Of cells up to 4 MiB there may be four times as many. */
  concurrency?: number | undefined
  /** Restores that run at the same time; 4 by default. */
  restoreConcurrency?: number | undefined
  /**
   * True, the default: cells whose data is not on this machine are restored in the background: accounts in turns, and of
   * each the cell first that was changed last. False: each at its first use.
   */
  recoverInBackground?: boolean | undefined
  /** How many of them at the same time; by default one less than `restoreConcurrency`, so that requests need not wait. */
  recoveryConcurrency?: number | undefined
  /** Milliseconds that a backup, a restore or a verification may run; a day by default. Then it is cancelled. */
  deadlineMs?: number | undefined
  /** With durability `remote`, milliseconds that a change waits for the object store; 10,000 by default. */
  remoteWaitMs?: number | undefined
}

/** Options of a store: plain data, except for the components at the end. */
export interface StoreOptions extends OwnerFunctionsOptions {
  /** Where backups go: `file:///path`, `s3://bucket/prefix?…`, or an {@link ObjectStore} of your own. Without one there are no backups. */
  objectStore?: string | ObjectStore | undefined
  /** Default `full`: a commit is on disk when its call returns or resolves. */
  durability?: Durability | undefined
  /** For `cell.sql()`; default `trusted`. SQL over HTTP follows the policy `tenant`, unless the handler's own option says otherwise. */
  sqlPolicy?: SqlPolicy | undefined
  /** Instead of {@link DEFAULT_LIMITS}. */
  limits?: Some<Limits> | undefined
  /** What each account may have. Default in the library: no bounds. */
  quotas?: Quotas | undefined
  /** Automatic backups of cells; on by default where there is an object store. */
  backups?: BackupSettings | undefined
  /** How much of the past is kept for those who watch cells: see `Cell.watch()`. */
  watch?: Some<WatchSettings> | undefined
  /** Cells kept open at the same time; by default what the descriptor limit allows, at most 1,000. */
  openCellsMax?: number | undefined
  /** Bytes of database pages that one open cell may cache; 1 MiB by default. */
  pageCacheBytes?: number | undefined
  /** Bytes of a cell's write-ahead log at which it is checkpointed; 4 MiB by default. */
  checkpointBytes?: number | undefined
  /** Bytes that a file of the commit log may have; 64 MiB by default. Each process with open cells has at most four. */
  commitLogBytes?: number | undefined
  /**
   * Milliseconds after which another machine may use the object store, if this node has given no sign of itself; 90,000
   * by default, at most an hour. It gives one every two thirds of that.
   */
  leaseMs?: number | undefined
  /** True: takes the object store from the node that uses it, which then stops, and goes on with this directory's data. */
  takeOver?: boolean | undefined
  /**
   * True: if the object store has history that this directory did not write, goes on from there. What the directory had
   * is set aside, in a folder inside of it.
   */
  adopt?: boolean | undefined
  /** True: backups go to another object store than before. Without it a start with another one is refused. */
  moveObjectStore?: boolean | undefined
  /** Milliseconds that the start of a store without a catalog waits for the object store; 60,000 by default. */
  objectStoreWaitMs?: number | undefined
  /** Which cells are this node's, of a cluster. Default: all. @internal */
  ownership?: Ownership | undefined
  /** Default: the system's. */
  clock?: Clock | undefined
  /** From 0 up to 1, to spread work over time. Default `Math.random`. */
  random?: (() => number) | undefined
  /** Default: nothing is logged. */
  log?: Log | undefined
}
