import { randomUUID } from 'node:crypto'
import fs from 'node:fs'
import path from 'node:path'
import { isCellError } from '../../../src/errors.ts'
import type { CellStore } from '../../../src/store/cell-store.ts'
import type { Cell } from '../../../src/store/open/cell.ts'
import type { Random } from '../random.ts'
import { StoreDirectory } from '../store-directory.ts'
import { tempDirectory } from '../temp-directory.ts'
import { expectUnbrokenLog } from './stored-logs.ts'
import type { Storm } from './storms.ts'
import type { StormyBucket } from './stormy-bucket.ts'

const CELLS = 3

/** What a cell has committed, oldest first, and how much of it the store has promised to be in the bucket. */
interface Line {
  committed: string[]
  promised: number
  /** Other ends that were passed over: while nothing newer is stored, they may come back. */
  passedOver: string[][]
  /** Its files were lost, and nobody has looked yet at what came back. */
  isLost: boolean
  /**
   * The same, because another node has taken over. What the former one had on its way comes late, perhaps after the look, and
   * counts until the new node stores something of the cell (docs/decisions/0019-fencing.md, "Limits").
   */
  isTakenOver: boolean
}

/** Promised rows of a cell that came back without them, because an old listing has hidden a version. */
interface PassedOver {
  id: string
  tokens: string[]
}

/**
 * A store that ships to a bucket which fails in every way, is lost and taken over. Cells only ever grow by numbered tokens: so
 * after each loss a cell has to hold a prefix of what it had committed, with all that was promised in it. Only a version that an
 * old listing has hidden may be passed over (docs/promises.md); it has to stay, and to hold what was promised.
 */
export class ShippingStorm implements Storm {
  readonly counts = {
    written: 0,
    promised: 0,
    losses: 0,
    takenOver: 0,
    recovered: 0,
    passedOver: 0,
    broughtBack: 0,
  }
  readonly steps: string[] = []
  readonly #bucket: StormyBucket
  readonly #random: Random
  readonly #passedOver: PassedOver[] = []
  readonly #lines = new Map<string, Line>()
  readonly #root = tempDirectory('cellstore-shipping-storm')
  readonly #directories: StoreDirectory[] = []
  #store!: CellStore
  #storeId = ''

  constructor(bucket: StormyBucket) {
    this.#bucket = bucket
    this.#random = bucket.random
    bucket.mayRefuseWith('object_store_in_use', 'not_replicated', 'taken_over', 'store_closed', 'no_backup')
  }

  async start(): Promise<void> {
    await this.#open(this.#newDirectory())
    this.#storeId = this.#store.id
    for (let i = 0; i < CELLS; i++) {
      const cell = this.#store.createCell()
      cell.sql('CREATE TABLE log (n INTEGER PRIMARY KEY, token TEXT, x BLOB)')
      this.#lines.set(cell.id, {
        committed: [],
        promised: 0,
        passedOver: [],
        isLost: false,
        isTakenOver: false,
      })
      this.#write(cell.id)
      await this.#bucket.atLast(() => this.#replicate(cell.id))
    }
  }

  async step(): Promise<void> {
    const faults = this.#bucket.rage()
    const id = this.#random.pick([...this.#lines.keys()])
    const [name, run] = this.#random.pick<[string, () => Promise<void>]>([
      ['remote', () => this.#writeRemote(id)],
      ['remote', () => this.#writeRemote(id)],
      ['remote to all', () => this.#writeRemoteToAll()],
      ['flush', () => this.#bucket.loudly(() => this.#flush())],
      ['backup', () => this.#bucket.loudly(() => this.#backup(id))],
      ['many', async () => this.#writeMany(id)],
      ['reopen', () => this.#reopen()],
      ['loss', () => this.#lose()],
      ['take-over', () => this.#takeOver()],
    ])
    this.steps.push(`${name} ${faults}`)
    await run()
    this.#bucket.calm()
  }

  /** Everything is shipped, comes back after one more loss, and leaves nothing behind. */
  async prove(): Promise<void> {
    for (const id of this.#lines.keys()) {
      await this.#bucket.atLast(() => this.#recover(id))
      // The first change of a cell that came back may be stored with its next version; the second is in the log.
      for (let i = 0; i < 2; i++) {
        this.#write(id)
        await this.#bucket.atLast(() => this.#replicate(id))
      }
    }
    await this.#lose()
    for (const [id, { committed, promised }] of this.#lines) {
      if (promised !== committed.length) throw new Error(`${id} has not caught up`)
      await this.#bucket.atLast(() => this.#recover(id))
    }
    for (const each of this.#passedOver) await this.#proveThere(each)
    await this.#checkBucket()
  }

  async dispose(): Promise<void> {
    for (const directory of this.#directories) await directory.close()
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
    await this.#bucket.loudly(async () => {
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
    await this.#bucket.refusing(() => this.#store.close())
    fs.rmSync((this.#directories.at(-1) as StoreDirectory).path, { recursive: true, force: true })
    this.counts.losses++
    this.#bucket.forgetHidden()
    await this.#open(this.#newDirectory())
    await this.#recoverAll()
  }

  /** Another node takes over while this one writes; what that acknowledges until its end has to be there. */
  async #takeOver(): Promise<void> {
    this.#bucket.forgetHidden()
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
    for (const line of this.#lines.values()) line.isTakenOver = true
    await this.#recoverAll()
  }

  async #open(directory: StoreDirectory): Promise<void> {
    this.#store = await this.#opened(directory)
    if (this.#storeId !== '' && this.#store.id !== this.#storeId)
      throw new Error('An empty node has begun another history.')
  }

  #opened(directory: StoreDirectory, takeOver = false): Promise<CellStore> {
    return this.#bucket.untilOpen(() =>
      directory.openOrCreate({
        objectStore: this.#bucket.objectStore(),
        durability: 'remote',
        takeOver,
        backups: { maxLagMs: 1_000, remoteWaitMs: 3_000, drillEveryMs: null },
      }),
    )
  }

  async #recoverAll(): Promise<void> {
    for (const line of this.#lines.values()) line.isLost = true
    for (const id of this.#lines.keys()) await this.#bucket.loudly(() => this.#recover(id))
  }

  /** Brings a cell back if it is lost. @throws unless it holds what it has to */
  async #recover(id: string): Promise<void> {
    const line = this.#line(id)
    if (!line.isLost) return
    if (this.#store.findCell(id) === undefined) await this.#bringBack(id)
    const cell = this.#store.openCell(id)
    await cell.ensureLocal().catch((error) => this.#goOn(id, error))
    if (!line.isLost) return
    const found = tokensOf(cell)
    if (![line.committed, ...line.passedOver].some((each) => beginsWith(each, found)))
      throw new Error(`${id}: not all of ${found.length} rows were committed one after the other`)
    if (!beginsWith(found, line.committed.slice(0, line.promised))) this.#passOver(id, line, found)
    if (line.isTakenOver && found.length < line.committed.length) line.passedOver.push(line.committed)
    line.committed = found
    line.isLost = false
    line.isTakenOver = false
    this.counts.recovered++
  }

  /** An older catalog, from before the cell, comes back only if an old listing hides the newer ones. */
  async #bringBack(id: string): Promise<void> {
    if (!this.#bucket.hasHidden(`snapshots/${this.#storeId}/`))
      throw new Error(`${id} is not in the catalog that came back, and no listing lagged.`)
    await this.#store.backups.restore(id, { timestamp: Date.now() })
    this.counts.broughtBack++
  }

  #passOver(id: string, line: Line, found: readonly string[]): void {
    const tokens = line.committed.slice(0, line.promised)
    if (!this.#hasHiddenVersion(id))
      throw new Error(`${id}: ${tokens.length} rows were promised, and not all are among ${found.length}`)
    line.passedOver.push(line.committed)
    line.promised = tokens.findIndex((token, i) => token !== found[i])
    this.#passedOver.push({ id, tokens })
    this.counts.passedOver++
  }

  /** @throws unless a version holds what was promised, and can be restored by its name */
  async #proveThere({ id, tokens }: PassedOver): Promise<void> {
    const { backups } = await this.#store.backups.list(id, { limit: 1_000 })
    for (const { version } of backups) {
      const cell = await this.#store.createCell({ from: { cellId: id, version } })
      const found = tokensOf(cell)
      if (beginsWith(found, tokens)) return
    }
    throw new Error(
      `${id}: ${tokens.length} rows were promised, and are in none of ${backups.length} versions`,
    )
  }

  /** What came damaged twice counts as damaged until somebody proves it; the bucket is well by then. */
  async #goOn(id: string, error: unknown): Promise<void> {
    if (isCellError(error, 'no_backup') && !this.#hasHiddenVersion(id))
      throw new Error(`${id} is said to have no backup, and no listing lagged.`, { cause: error })
    if (!isCellError(error, 'backup_corrupt') || !this.#bucket.isWell) throw error
    await this.#store.backups.verify(id, { version: error.details.member as string })
    await this.#store.openCell(id).ensureLocal()
  }

  #hasHiddenVersion(id: string): boolean {
    return this.#bucket.hasHidden(`snapshots/${id}/`)
  }

  #line(id: string): Line {
    return this.#lines.get(id) as Line
  }

  /** Numbers without gaps, each object naming the one before it, and no upload that nobody finishes. */
  async #checkBucket(): Promise<void> {
    const objects = this.#bucket.patientObjectStore()
    await expectUnbrokenLog(objects)
    await objects.sweepUploads('', Date.UTC(2100, 0))
    const left = await objects.sweepUploads('', Date.UTC(2100, 0))
    if (left > 0) throw new Error(`${left} uploads are left`)
    await objects.close()
  }
}

function beginsWith(tokens: readonly string[], first: readonly string[]): boolean {
  return first.every((token, i) => token === tokens[i])
}

function tokensOf(cell: Cell): string[] {
  return cell.sql<{ token: string }>('SELECT token FROM log ORDER BY n').rows.map(({ token }) => token)
}
