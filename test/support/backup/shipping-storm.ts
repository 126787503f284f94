import { randomUUID } from 'node:crypto'
import fs from 'node:fs'
import path from 'node:path'
import { S3ObjectStore } from '../../../src/backup/object-store/s3/s3-object-store.ts'
import type { S3ObjectStoreOptions } from '../../../src/backup/object-store/s3/s3-settings.ts'
import { isCellError } from '../../../src/errors.ts'
import type { CellStore } from '../../../src/store/cell-store.ts'
import type { Random } from '../random.ts'
import { FAULTS, type Fault, type FaultProxy } from '../s3/fault-proxy.ts'
import { StoreDirectory } from '../store-directory.ts'
import { tempDirectory } from '../temp-directory.ts'
import { assertLoud } from './loud-failures.ts'
import { expectUnbrokenLog } from './stored-logs.ts'

const CELLS = 3
const PATIENCE = { deadlineMs: 4_000, connectMs: 500, requestMs: 400, idleMs: 400, attempts: 3 }
const ALL_FAULTS = Object.keys(FAULTS) as Fault[]
/** An empty node that is shown an old listing of versions takes the newest of them: docs/promises.md. */
const WITHOUT_LAG = ALL_FAULTS.filter((fault) => fault !== 'lagging')

/** What a cell has committed, oldest first, and how much of it the store has promised to be in the bucket. */
interface Line {
  committed: string[]
  promised: number
  /** Its files were lost, and nobody has looked yet at what came back. */
  isLost: boolean
}

/**
 * A store that ships to a bucket which fails in every way, is lost and taken over. Cells only ever grow by numbered tokens: so
 * after each loss a cell has to hold a prefix of what it had committed, with all that was promised in it.
 */
export class ShippingStorm {
  readonly counts = { written: 0, promised: 0, failures: 0, losses: 0, takenOver: 0, recovered: 0 }
  readonly steps: string[] = []
  readonly #proxy: FaultProxy
  readonly #options: S3ObjectStoreOptions
  readonly #random: Random
  readonly #rate: number
  readonly #lines = new Map<string, Line>()
  readonly #root = tempDirectory('cellstore-shipping-storm')
  readonly #directories: StoreDirectory[] = []
  #store!: CellStore
  #storeId = ''

  /** @param options of the bucket behind the proxy */
  constructor(proxy: FaultProxy, options: S3ObjectStoreOptions, random: Random, rate: number) {
    this.#proxy = proxy
    this.#options = {
      ...options,
      endpoint: proxy.endpoint,
      prefix: `shipping-${randomUUID()}`,
      patience: PATIENCE,
    }
    this.#random = random
    this.#rate = rate
  }

  async start(): Promise<void> {
    this.#proxy.rate = 0
    await this.#open(this.#newDirectory())
    this.#storeId = this.#store.id
    for (let i = 0; i < CELLS; i++) {
      const cell = this.#store.createCell()
      cell.sql('CREATE TABLE log (n INTEGER PRIMARY KEY, token TEXT, x BLOB)')
      this.#lines.set(cell.id, { committed: [], promised: 0, isLost: false })
      this.#write(cell.id)
      await this.#replicate(cell.id)
    }
  }

  async step(): Promise<void> {
    this.#setFaults(this.#rate)
    const id = this.#random.pick([...this.#lines.keys()])
    const [name, run] = this.#random.pick<[string, () => Promise<void>]>([
      ['remote', () => this.#writeRemote(id)],
      ['remote', () => this.#writeRemote(id)],
      ['remote to all', () => this.#writeRemoteToAll()],
      ['flush', () => this.#loudly(() => this.#flush())],
      ['backup', () => this.#loudly(() => this.#backup(id))],
      ['many', async () => this.#writeMany(id)],
      ['reopen', () => this.#reopen()],
      ['loss', () => this.#lose()],
      ['take-over', () => this.#takeOver()],
    ])
    this.steps.push(`${name} ${this.#proxy.faults.length === 1 ? this.#proxy.faults[0] : 'all'}`)
    await run()
    this.#proxy.rate = 0
  }

  /** The bucket is well again: everything is shipped, comes back after one more loss, and leaves nothing behind. */
  async prove(): Promise<void> {
    this.#proxy.rate = 0
    for (const id of this.#lines.keys()) {
      await this.#recover(id)
      this.#write(id)
      await this.#replicate(id)
    }
    await this.#lose()
    for (const [id, { committed, promised }] of this.#lines) {
      if (promised !== committed.length) throw new Error(`${id} has not caught up`)
      await this.#recover(id)
    }
    await this.#checkBucket()
  }

  async dispose(): Promise<void> {
    this.#proxy.rate = 0
    for (const directory of this.#directories) await directory.close()
  }

  #setFaults(rate: number, isLoss = false): void {
    const isLost = isLoss || [...this.#lines.values()].some((line) => line.isLost)
    const faults = isLost ? WITHOUT_LAG : ALL_FAULTS
    this.#proxy.rate = rate
    this.#proxy.faults = this.#random.chance(0.3) ? [this.#random.pick(faults)] : faults
  }

  #newDirectory(): StoreDirectory {
    const directory = new StoreDirectory(path.join(this.#root, `data-${this.#directories.length}`))
    directory.mayHaveLogs = true
    this.#directories.push(directory)
    return directory
  }

  #write(id: string): void {
    const line = this.#line(id)
    const token = `${line.committed.length}-${randomUUID()}`
    const bytes = 1 + this.#random.below(5_000)
    this.#store.openCell(id).sql('INSERT INTO log (token, x) VALUES (?, randomblob(?))', [token, bytes])
    line.committed.push(token)
    this.counts.written++
  }

  #writeMany(id: string): void {
    if (this.#line(id).isLost) return
    for (let i = 0; i < 60; i++) this.#write(id)
  }

  async #writeRemote(id: string): Promise<void> {
    await this.#loudly(async () => {
      await this.#recover(id)
      this.#write(id)
      await this.#replicate(id)
    })
  }

  async #writeRemoteToAll(): Promise<void> {
    await Promise.all([...this.#lines.keys()].map((id) => this.#writeRemote(id)))
  }

  async #replicate(id: string): Promise<void> {
    const line = this.#line(id)
    const { length } = line.committed
    await this.#store.openCell(id).replicated()
    this.#promise(line, length)
  }

  async #flush(): Promise<void> {
    const here = [...this.#lines].filter(([, line]) => !line.isLost)
    const lengths = here.map(([id, line]) => ({ id, line, length: line.committed.length }))
    const { withoutHistory } = await this.#store.backups.flush()
    for (const { id, line, length } of lengths) if (!withoutHistory.includes(id)) this.#promise(line, length)
  }

  async #backup(id: string): Promise<void> {
    await this.#recover(id)
    this.#write(id)
    const line = this.#line(id)
    const { length } = line.committed
    await this.#store.backups[this.#random.pick(['snapshot', 'incremental'] as const)](id)
    this.#promise(line, length)
  }

  #promise(line: Line, length: number): void {
    line.promised = Math.max(line.promised, length)
    this.counts.promised++
  }

  async #reopen(): Promise<void> {
    await this.#store.close()
    await this.#open(this.#directories.at(-1) as StoreDirectory)
  }

  /** The bucket takes nothing while the store is closed: as if its process was killed. */
  async #lose(): Promise<void> {
    const { rate } = this.#proxy
    this.#proxy.faults = ['refused']
    this.#proxy.rate = 1
    await this.#store.close()
    fs.rmSync((this.#directories.at(-1) as StoreDirectory).path, { recursive: true, force: true })
    this.counts.losses++
    this.#setFaults(rate, true)
    await this.#open(this.#newDirectory())
    await this.#recoverAll()
  }

  /** Another node takes over while this one writes; what that acknowledges until its end has to be there. */
  async #takeOver(): Promise<void> {
    this.#setFaults(this.#proxy.rate, true)
    const old = this.#store
    let isTaken = false
    const writing = Promise.all(
      [...this.#lines.keys()].map(async (id) => {
        while (!isTaken && old.core.guard?.failure === undefined) await this.#writeRemote(id)
      }),
    )
    writing.catch(() => {})
    const before = this.#directories.at(-1) as StoreDirectory
    const next = this.#newDirectory()
    let opened: CellStore
    try {
      opened = await this.#opened(next, true)
    } finally {
      isTaken = true
      await writing
    }
    await old.close()
    fs.rmSync(before.path, { recursive: true, force: true })
    this.#store = opened
    this.counts.takenOver++
    await this.#recoverAll()
  }

  async #open(directory: StoreDirectory): Promise<void> {
    this.#store = await this.#opened(directory)
    if (this.#storeId !== '' && this.#store.id !== this.#storeId)
      throw new Error('An empty node has begun another history.')
  }

  /** The bucket may refuse a start, loudly; a later one succeeds. */
  async #opened(directory: StoreDirectory, takeOver = false): Promise<CellStore> {
    for (let attempt = 1; ; attempt++) {
      if (attempt > 3) this.#proxy.rate = 0
      try {
        return await directory.openOrCreate({
          objectStore: new S3ObjectStore(this.#options),
          durability: 'remote',
          takeOver,
          backups: { maxLagMs: 1_000, remoteWaitMs: 3_000, drillEveryMs: null },
        })
      } catch (error) {
        if (attempt > 4) throw error
        assertLoud(error)
      }
    }
  }

  async #recoverAll(): Promise<void> {
    for (const line of this.#lines.values()) line.isLost = true
    for (const id of this.#lines.keys()) await this.#loudly(() => this.#recover(id))
  }

  /** Brings a cell back if it is lost. @throws unless it holds what it has to */
  async #recover(id: string): Promise<void> {
    const line = this.#line(id)
    if (!line.isLost) return
    const cell = this.#store.openCell(id)
    await cell.ensureLocal().catch((error) => this.#proveDamaged(id, error))
    if (!line.isLost) return
    const { rows } = cell.sql<{ token: string }>('SELECT token FROM log ORDER BY n')
    const found = rows.map(({ token }) => token)
    const { committed, promised } = line
    const wrong = found.findIndex((token, i) => token !== committed[i])
    if (wrong !== -1)
      throw new Error(`${id}: row ${wrong} of ${found.length} is not what was committed: ${found[wrong]}`)
    if (found.length < promised)
      throw new Error(
        `${id}: ${promised} of ${committed.length} rows were promised, and ${found.length} are there`,
      )
    line.committed = found
    line.isLost = false
    this.counts.recovered++
  }

  /** What came damaged twice counts as damaged until somebody proves it; the bucket is well by then. */
  async #proveDamaged(id: string, error: unknown): Promise<void> {
    if (!isCellError(error, 'backup_corrupt') || this.#proxy.rate > 0) throw error
    await this.#store.backups.verify(id, { version: error.details.member })
    await this.#store.openCell(id).ensureLocal()
  }

  #line(id: string): Line {
    return this.#lines.get(id) as Line
  }

  /** Numbers without gaps, each object naming the one before it, and no upload that nobody finishes. */
  async #checkBucket(): Promise<void> {
    const objects = new S3ObjectStore(this.#options)
    await expectUnbrokenLog(objects)
    await objects.sweepUploads('', Date.UTC(2100, 0))
    const left = await objects.sweepUploads('', Date.UTC(2100, 0))
    if (left > 0) throw new Error(`${left} uploads are left`)
    await objects.close()
  }

  async #loudly(work: () => Promise<void>): Promise<void> {
    try {
      await work()
    } catch (error) {
      assertLoud(error)
      this.counts.failures++
    }
  }
}
