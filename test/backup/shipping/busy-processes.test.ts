import { randomUUID } from 'node:crypto'
import path from 'node:path'
import { setImmediate as turnOfTheLoop } from 'node:timers/promises'
import { beforeEach, describe, expect, test } from 'vitest'
import type { CollectedLook, CollectLimits } from '../../../src/backup/changes/log/cell-log.ts'
import { packLogs, unpackLogs } from '../../../src/backup/changes/log/packed-logs.ts'
import { FileObjectStore } from '../../../src/backup/object-store/file/file-object-store.ts'
import { Replication } from '../../../src/store/open/replication.ts'
import { WorkerLooks } from '../../../src/workers/node/placement/worker-looks.ts'
import type { WorkerHandle } from '../../../src/workers/node/processes/worker-process.ts'
import { ShippingNode, WalCells } from '../../support/backup/shipping-node.ts'
import { storedLogs } from '../../support/backup/stored-logs.ts'
import type { WalCell } from '../../support/backup/wal-cell.ts'
import { FakeClock } from '../../support/fake-clock.ts'
import { tempDirectory } from '../../support/temp-directory.ts'

/** A worker that answers nothing while it runs a statement. */
class BusyWorker {
  readonly cells: WalCell[] = []
  cellsClosed = 0
  #statement: PromiseWithResolvers<void> | undefined
  readonly #all: WalCells

  constructor(all: WalCells) {
    this.#all = all
  }

  begin(): void {
    this.#statement = Promise.withResolvers()
  }

  end(): void {
    this.#statement?.resolve()
    this.#statement = undefined
  }

  mayHaveUsed(cellId: string): boolean {
    return this.cells.some((cell) => cell.cellId === cellId)
  }

  async collectLogs(limits: CollectLimits) {
    await this.#statement?.promise
    return packLogs(await this.#all.collectOf(limits, this.cells))
  }
}

class CellsOfWorkers extends WalCells {
  readonly workers = [new BusyWorker(this), new BusyWorker(this)]
  isLooking = false
  readonly #looks: WorkerLooks

  constructor(clock: FakeClock) {
    super(() => clock.now())
    this.#looks = new WorkerLooks(clock)
  }

  override async collectLogs(limits: CollectLimits): Promise<CollectedLook> {
    this.begin(limits)
    this.isLooking = true
    const workers = this.workers as unknown as WorkerHandle[]
    const look = await this.#looks.collect(workers, limits).finally(() => {
      this.isLooking = false
    })
    return unpackLogs(look)
  }

  override async hurryLook(): Promise<void> {
    this.#looks.hurry()
  }
}

let objects: FileObjectStore
let clock: FakeClock
let cells: CellsOfWorkers
let node: ShippingNode
let mine: WalCell
let neighbour: WalCell
let attacker: BusyWorker

beforeEach(async () => {
  const folder = tempDirectory('cellstore-busy')
  objects = new FileObjectStore({ root: path.join(folder, 'objects') })
  clock = new FakeClock()
  cells = new CellsOfWorkers(clock)
  node = new ShippingNode(objects, folder, { storeId: randomUUID(), cells, clock })
  const [first, second] = cells.workers as [BusyWorker, BusyWorker]
  attacker = first
  mine = node.newCell()
  first.cells.push(mine)
  neighbour = node.newCell()
  second.cells.push(neighbour)
  await node.start()
  await pass(0)
  return async () => {
    attacker.end()
    await node.stop()
  }
})

/** Lets time pass from timer to timer. Real files are written meanwhile; a look at the workers may wait for time to pass. */
async function pass(ms: number): Promise<void> {
  const end = clock.monotonic() + ms
  for (;;) {
    for (let turn = 0; turn < 5; turn++) await turnOfTheLoop()
    while (node.isTicking && !cells.isLooking) await turnOfTheLoop()
    const next = clock.nextTimerMs
    if (next === undefined || clock.monotonic() + next > end) break
    clock.advance(next)
  }
  clock.advance(end - clock.monotonic())
}

interface Waits {
  /** Milliseconds, once it is confirmed. */
  ms?: number
  failed?: unknown
}

function confirm({ cellId }: WalCell): Waits {
  const replication = new Replication({
    flush: (id, signal) => node.shipper.flush(signal, { cells: [id] }),
    ensureLocal: async () => {},
    backUp: async () => {},
    storeCatalog: async () => {},
    isInStoredCatalog: () => true,
    isRemote: () => true,
    isUnproven: () => false,
    exists: () => true,
    clock,
    waitMs: 10_000,
  })
  const begun = clock.monotonic()
  const waits: Waits = {}
  replication.confirm(cellId).then(
    () => {
      waits.ms = clock.monotonic() - begun
    },
    (error) => {
      waits.failed = error
    },
  )
  return waits
}

describe('While a worker runs long statements one after the other', () => {
  test('a change in another worker is confirmed soon', async () => {
    attacker.begin()
    neighbour.commit()
    const waits = confirm(neighbour)
    await pass(600)
    expect(waits.ms).toBeLessThan(500)
  })

  test('so is one that comes during the look of a tick', async () => {
    attacker.begin()
    await pass(11_000)
    neighbour.commit()
    const waits = confirm(neighbour)
    await pass(600)
    expect(waits.ms).toBeLessThan(500)
  })

  test('its own changes are confirmed once a statement has ended', async () => {
    mine.commit()
    attacker.begin()
    const waits = confirm(mine)
    await pass(4_900)
    expect(waits).toEqual({})
    attacker.end()
    await pass(0)
    attacker.begin()
    await pass(1_000)
    expect(waits.ms).toBeLessThan(6_000)
  })

  test('no log object claims what the worker had no time to tell', async () => {
    attacker.begin()
    const asked = clock.now()
    const before = confirm(neighbour)
    await pass(1_000)
    expect(before.ms).toBeDefined()
    mine.commit()
    const committed = clock.now()
    neighbour.commit()
    const after = confirm(neighbour)
    await pass(1_000)
    expect(after.ms).toBeDefined()
    attacker.end()
    await pass(0)
    for (let i = 0; i < 3; i++) {
      neighbour.commit()
      confirm(neighbour)
      attacker.begin()
      await pass(1_000)
      attacker.end()
      await pass(0)
    }
    const logs = (await storedLogs(objects)).map(({ manifest }) => manifest)
    const first = logs.findIndex((log) => log.cells.some(({ cell_id }) => cell_id === mine.cellId))
    const claims = logs.slice(1, first).filter(({ complete, to }) => complete && to > committed)
    expect(claims).toEqual([])
    expect(logs.at(-1)?.to).toBeGreaterThan(asked)
  })
})

test('What a worker told before it gave a cell away is not shipped once another one may have shipped more', async () => {
  attacker.begin()
  mine.commit()
  confirm(neighbour)
  await pass(1_000)
  attacker.end()
  await pass(0)
  const keys = async () => (await storedLogs(objects)).length
  const before = await keys()
  attacker.cells.splice(0)
  attacker.cellsClosed++
  mine.shipped({
    ...(mine.unshipped()?.pieces.at(-1) as { sequence: number }),
    cellId: mine.cellId,
    history: mine.history,
    frames: mine.unshipped()?.pieces.at(-1)?.to as number,
  })
  await pass(20_000)
  expect(await keys()).toBe(before)
})
