import { EpochGuard } from '../../../src/backup/fence/epoch-guard.ts'
import { EpochHolder, type HolderWait } from '../../../src/backup/fence/epoch-holder.ts'
import { FencedObjectStore } from '../../../src/backup/fence/fenced-object-store.ts'
import { type HolderPlace, placeHere } from '../../../src/backup/fence/holder-record.ts'
import type { ObjectStore } from '../../../src/backup/object-store/object-store.ts'
import { StorePaths } from '../../../src/base/files/store-paths.ts'
import { RememberedObjectStore } from '../../../src/catalog/remembered-object-store.ts'
import { FakeClock } from '../fake-clock.ts'
import { KeptLog } from '../kept-log.ts'
import { tempDirectory } from '../temp-directory.ts'

export const LEASE_MS = 90_000

export interface FenceNodeOptions {
  /** Where the node remembers what it wrote; by default a directory of its own. */
  directory?: string
  /** What differs from this process in the records of the node. */
  place?: Partial<HolderPlace> | undefined
  takesOver?: boolean
  clock?: FakeClock
  random?: () => number
}

/** What a node needs to take an epoch, and to write with it. */
export class FenceNode {
  readonly clock: FakeClock
  readonly log = new KeptLog()
  readonly directory: string
  readonly guard: EpochGuard
  readonly holder: EpochHolder
  readonly store: FencedObjectStore

  constructor(store: ObjectStore, options: FenceNodeOptions = {}) {
    const { directory = tempDirectory('cellstore-fence'), place = {}, takesOver = false } = options
    const { clock = new FakeClock(), random = () => 0 } = options
    this.clock = clock
    this.directory = directory
    this.guard = new EpochGuard(store, clock)
    this.store = new FencedObjectStore(store, this.guard, clock)
    this.holder = new EpochHolder({
      store,
      guard: this.guard,
      remembered: RememberedObjectStore.read(new StorePaths(directory)),
      here: { ...placeHere('host', directory), ...place },
      leaseMs: LEASE_MS,
      takesOver,
      clock,
      random,
      log: this.log,
    })
  }

  take(hasHistory = false): Promise<HolderWait | undefined> {
    return this.holder.tryTake(hasHistory)
  }

  stop(): Promise<void> {
    return this.holder.close(new AbortController().signal)
  }

  /** Lets short timers pass until the work settles. */
  settled<T>(work: Promise<T>): Promise<T> {
    return this.clock.advanceUntil(work, 1_000)
  }
}

/** The place of another machine: nobody can tell from here whether its processes live. */
export const ELSEWHERE: Partial<HolderPlace> = { host: 'elsewhere', boot_id: 'another boot' }
