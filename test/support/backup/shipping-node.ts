import { randomUUID } from 'node:crypto'
import fs from 'node:fs'
import path from 'node:path'
import { setImmediate } from 'node:timers/promises'
import {
  among,
  type CollectedLogs,
  type CollectedLook,
  type CollectLimits,
  lookOf,
  type ShippedPlace,
} from '../../../src/backup/changes/log/cell-log.ts'
import { FileObjectStore } from '../../../src/backup/object-store/file/file-object-store.ts'
import type { ObjectStore } from '../../../src/backup/object-store/object-store.ts'
import type { LogPort } from '../../../src/backup/shipping/log-port.ts'
import { Shipper, type ShippingSettings } from '../../../src/backup/shipping/shipper.ts'
import { unshippedBytes } from '../../../src/backup/shipping/unshipped-bound.ts'
import { perTest } from '../per-test.ts'
import { tempDirectory } from '../temp-directory.ts'
import { FenceNode, type FenceNodeOptions } from './fence-node.ts'
import { type Call, PassingStore } from './object-store-decorators.ts'
import { WalCell } from './wal-cell.ts'

/** Cells of this process, as a port. */
export class WalCells implements LogPort {
  readonly all: WalCell[] = []
  collects = 0
  /** Of which cells the last look was asked whether they have a history. */
  historyOf: readonly string[] | undefined
  withoutHistory: string[] = []
  allAsOf: number | null | 'as of now' = 'as of now'
  /** Of one look, unless it asks for all. */
  cellsMax = Number.POSITIVE_INFINITY
  /** Whether there may be cells that nobody has found yet. */
  isSearching = false
  readonly dropped: string[] = []
  /** Those that a version was asked for. */
  readonly needed: string[] = []
  onCollect = () => {}
  readonly #now: () => number

  constructor(now: () => number) {
    this.#now = now
  }

  async collectLogs(limits: CollectLimits): Promise<CollectedLook> {
    this.begin(limits)
    return lookOf(await this.collectOf(limits, this.all), this.collects)
  }

  async hurryLook(): Promise<void> {}

  protected begin({ historyOf }: CollectLimits): void {
    this.collects++
    this.historyOf = historyOf
    this.onCollect()
  }

  /** What a process has that has some of the cells. */
  async collectOf(
    { cellsMax, bytesMax, except = [], historyOf, awaited = [] }: CollectLimits,
    cells: readonly WalCell[],
  ): Promise<CollectedLogs> {
    const unreadable = cells.map(({ cellId }) => cellId).filter((cellId) => except.includes(cellId))
    const found = cells
      .filter(({ cellId }) => !except.includes(cellId))
      .map((cell) => cell.unshipped())
      .filter((log) => log !== undefined)
    const logs: typeof found = []
    let bytes = 0
    const isForAll = cellsMax === Number.MAX_SAFE_INTEGER
    for (const log of found.slice(0, isForAll ? cellsMax : Math.min(cellsMax, this.cellsMax))) {
      if (logs.length > 0 && bytes >= bytesMax) break
      logs.push(log)
      bytes += unshippedBytes([log])
    }
    // What crosses to another process is JSON.
    const isAll = logs.length === found.length
    const asOf = this.#now()
    const collected: CollectedLogs = {
      logs,
      isAll: isAll && !this.isSearching,
      hasMore: !isAll,
      withoutHistory: historyOf ? among(this.withoutHistory, historyOf) : this.withoutHistory,
      withoutHistoryCount: this.withoutHistory.length,
      unreadable,
      asOf,
      allAsOf: this.allAsOf === 'as of now' ? asOf : this.allAsOf,
      complete: awaited.filter((id) => found.slice(logs.length).every(({ cellId }) => cellId !== id)),
    }
    return JSON.parse(JSON.stringify(collected))
  }

  async logsShipped(places: ShippedPlace[]): Promise<void> {
    for (const place of places) this.all.find(({ cellId }) => cellId === place.cellId)?.shipped(place)
  }

  async dropHistory(cellId: string): Promise<void> {
    this.dropped.push(cellId)
    this.all.find((cell) => cell.cellId === cellId)?.dropHistory()
  }

  async logsLeft(): Promise<string[]> {
    return []
  }

  async needsBase(cellId: string): Promise<void> {
    this.needed.push(cellId)
  }
}

/** A node with an epoch that ships the cells of a folder. */
export class ShippingNode {
  readonly fence: FenceNode
  readonly cells: WalCells
  readonly shipper: Shipper
  readonly storeId: string
  retentionRounds = 0
  readonly #folder: string
  /** A tick begins with a look at the cells, or with the put of an object that is made already. */
  #isTicking = false

  constructor(
    store: ObjectStore,
    folder: string,
    {
      storeId,
      settings = {},
      cells,
      ...fence
    }: FenceNodeOptions & {
      storeId: string
      settings?: Partial<ShippingSettings>
      cells?: WalCells
    },
  ) {
    this.fence = new FenceNode(store, fence)
    this.storeId = storeId
    this.#folder = folder
    const { clock, guard, log } = this.fence
    const begin = () => {
      this.#isTicking = true
    }
    this.cells = cells ?? new WalCells(() => clock.now())
    this.cells.onCollect = begin
    this.shipper = new Shipper({
      settings: { lagMs: 10_000, bytesMax: 2 ** 30, ...settings },
      objectStore: new BeginningStore(this.fence.store, begin),
      epoch: guard,
      claim: async () => {},
      cells: this.cells,
      storeId,
      spoolDirectory: path.join(folder, 'spool'),
      retention: { runIfDue: () => void this.retentionRounds++, stop: async () => {} },
      onState: () => {
        this.#isTicking = false
      },
      clock,
      random: () => 1,
      log,
    })
  }

  newCell(): WalCell {
    const cell = new WalCell(this.#folder, this.fence.clock)
    this.cells.all.push(cell)
    return cell
  }

  /** Takes an epoch and ships. */
  async start(): Promise<void> {
    await this.fence.take()
    this.shipper.start()
  }

  /** Lets time pass from timer to timer, up to `ms`. */
  async pass(ms: number): Promise<void> {
    const { clock } = this.fence
    const end = clock.monotonic() + ms
    for (;;) {
      await this.quiet()
      const next = clock.nextTimerMs
      if (next === undefined || clock.monotonic() + next > end) break
      clock.advance(next)
    }
    clock.advance(end - clock.monotonic())
    await this.quiet()
  }

  get isTicking(): boolean {
    return this.#isTicking
  }

  /** Resolves once a tick that runs has ended. Real files are written meanwhile. */
  async quiet(): Promise<void> {
    await setImmediate()
    while (this.#isTicking && this.fence.guard.failure === undefined) await setImmediate()
  }

  async flush(): Promise<unknown> {
    return await this.fence.settled(this.shipper.flush())
  }

  async stop(): Promise<void> {
    await this.fence.settled(this.shipper.stop(new AbortController().signal))
    await this.fence.stop()
    for (const cell of this.cells.all) cell.close()
  }

  get spoolFiles(): string[] {
    const spool = path.join(this.#folder, 'spool')
    return fs.existsSync(spool) ? fs.readdirSync(spool) : []
  }
}

/** Says when a put begins. */
class BeginningStore extends PassingStore {
  readonly #begin: () => void

  constructor(store: ObjectStore, begin: () => void) {
    super(store)
    this.#begin = begin
  }

  protected override async before(call: Call): Promise<void> {
    if (call === 'put') this.#begin()
  }
}

/** A folder of objects, and nodes of one store that ship into it. */
export class ShippingPlace {
  readonly #folder = tempDirectory('cellstore-shipping')
  readonly #storeId = randomUUID()
  readonly objects = new FileObjectStore({ root: path.join(this.#folder, 'objects') })

  /** One for each test: see {@link perTest}. */
  static perTest(): ShippingPlace {
    return perTest(() => new ShippingPlace())
  }

  node(
    store: ObjectStore = this.objects,
    settings: Partial<ConstructorParameters<typeof ShippingNode>[2]> = {},
  ): ShippingNode {
    return new ShippingNode(store, this.#folder, { storeId: this.#storeId, ...settings })
  }
}
