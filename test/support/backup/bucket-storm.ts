import { randomUUID } from 'node:crypto'
import fs from 'node:fs'
import path from 'node:path'
import { S3ObjectStore } from '../../../src/backup/object-store/s3/s3-object-store.ts'
import type { S3ObjectStoreOptions } from '../../../src/backup/object-store/s3/s3-settings.ts'
import type { CellErrorCode } from '../../../src/errors.ts'
import { CellError } from '../../../src/errors.ts'
import type { CellStore } from '../../../src/store/cell-store.ts'
import type { Random } from '../random.ts'
import { FAULTS, type Fault, type FaultProxy } from '../s3/fault-proxy.ts'
import { StoreDirectory } from '../store-directory.ts'
import { tempDirectory } from '../temp-directory.ts'

const CELLS = 3
const PATIENCE = { deadlineMs: 4_000, connectMs: 500, requestMs: 400, idleMs: 400, attempts: 3 }

/** How a bucket may fail: loudly. Whatever else comes out of a storm is a bug. */
const LOUD: readonly CellErrorCode[] = [
  'object_store_unavailable',
  'object_store_error',
  'object_store_mismatch',
  'backup_corrupt',
  'backup_not_found',
  'cell_restoring',
  'no_backup',
  'busy',
  'cell_not_found',
  'store_not_found',
]

/**
 * A store whose bucket fails in every way that a bucket can. Each backup attempt first writes a token of its own to the
 * cell, so what a cell holds tells from which attempt it comes, and nothing has to be known of versions.
 */
export class BucketStorm {
  readonly directory = StoreDirectory.ofTest(path.join(tempDirectory('cellstore-storm'), 'data'))
  readonly counts = { stored: 0, refused: 0, restored: 0, lost: 0 }
  readonly steps: string[] = []
  readonly #proxy: FaultProxy
  readonly #options: S3ObjectStoreOptions
  readonly #random: Random
  readonly #rate: number
  /** What a cell held at each attempt, by its token. */
  readonly #states = new Map<string, string>()
  /** The tokens of the cell's acknowledged backups, oldest first, by version. */
  readonly #acknowledged = new Map<string, Map<string, string>>()
  #store!: CellStore
  #storeId = ''

  /** @param options of the bucket behind the proxy */
  constructor(proxy: FaultProxy, options: S3ObjectStoreOptions, random: Random, rate: number) {
    this.#proxy = proxy
    this.#options = {
      ...options,
      endpoint: proxy.endpoint,
      prefix: `storm-${randomUUID()}`,
      patience: PATIENCE,
    }
    this.#random = random
    this.#rate = rate
  }

  async start(): Promise<void> {
    this.#proxy.rate = 0
    this.#store = await this.directory.openOrCreate(this.#storeOptions())
    this.#storeId = this.#store.id
    for (let i = 0; i < CELLS; i++) {
      const cell = this.#store.createCell()
      cell.sql('CREATE TABLE log (n INTEGER PRIMARY KEY, token TEXT, x BLOB)')
      this.#acknowledged.set(cell.id, new Map())
      await this.#backup(cell.id, 'snapshot')
    }
  }

  async step(): Promise<void> {
    this.#proxy.rate = this.#rate
    this.#proxy.faults = this.#random.chance(0.3)
      ? [this.#random.pick(Object.keys(FAULTS) as Fault[])]
      : (Object.keys(FAULTS) as Fault[])
    const id = this.#random.pick([...this.#acknowledged.keys()])
    const [name, run] = this.#random.pick<[string, () => Promise<void>]>([
      ['incremental', () => this.#loudly(() => this.#backup(id, 'incremental'))],
      ['incremental', () => this.#loudly(() => this.#backup(id, 'incremental'))],
      ['snapshot', () => this.#loudly(() => this.#backup(id, 'snapshot'))],
      ['two at once', () => this.#twoAtOnce(id)],
      ['restore', () => this.#loudly(() => this.#restore(id))],
      ['list', () => this.#loudly(async () => void (await this.#store.backups.list(id)))],
      ['reopen', () => this.#reopen()],
      ['total loss', () => this.#totalLoss()],
    ])
    this.steps.push(`${name} ${this.#proxy.faults.length === 1 ? this.#proxy.faults[0] : 'all'}`)
    await run()
    this.#proxy.rate = 0
  }

  /** The bucket is well again: backups succeed, and every acknowledged version is listed and restores to its state. */
  async prove(): Promise<number> {
    this.#proxy.rate = 0
    let proven = 0
    for (const [id, acknowledged] of this.#acknowledged) {
      // If an empty node was shown an old catalog, it does not have the cell: then its id brings it back.
      if (this.#store.findCell(id) === undefined) await this.#store.backups.restore(id)
      await this.#store.openCell(id).ensureLocal()
      this.#checkState(id)
      await this.#backup(id, 'incremental')
      const { backups } = await this.#store.backups.list(id, { limit: 1_000 })
      const listed = new Set(backups.map(({ version }) => version))
      for (const version of acknowledged.keys()) {
        if (!listed.has(version)) throw new Error(`${version} was acknowledged, and is not listed.`)
      }
      for (const { version } of backups) {
        await this.#store.backups.restore(id, { version })
        const token = this.#checkState(id)
        const expected = acknowledged.get(version)
        if (expected !== undefined && token !== expected)
          throw new Error(`${version} restores to another state.`)
        proven++
      }
    }
    return proven
  }

  async dispose(): Promise<void> {
    this.#proxy.rate = 0
    await this.directory.close()
  }

  #storeOptions() {
    return { objectStore: new S3ObjectStore(this.#options) }
  }

  async #backup(id: string, kind: 'snapshot' | 'incremental'): Promise<void> {
    const cell = this.#store.openCell(id)
    const token = randomUUID()
    cell.sql('INSERT INTO log (token, x) VALUES (?, randomblob(?))', [token, 1 + this.#random.below(20_000)])
    this.#states.set(token, this.#contentOf(id))
    const { version } = await this.#store.backups[kind](id)
    this.#acknowledged.get(id)?.set(version, token)
    this.counts.stored++
  }

  async #restore(id: string): Promise<void> {
    const versions = this.#acknowledged.get(id) as Map<string, string>
    const version = this.#random.pick([...versions.keys()])
    await this.#store.backups.restore(id, { version })
    if (this.#checkState(id) !== versions.get(version))
      throw new Error(`${version} restored to another state.`)
    this.counts.restored++
  }

  async #twoAtOnce(id: string): Promise<void> {
    const other = [...this.#acknowledged.keys()].find((each) => each !== id) as string
    await Promise.all([
      this.#loudly(() => this.#backup(id, 'incremental')),
      this.#loudly(() => this.#restore(other)),
    ])
  }

  async #reopen(): Promise<void> {
    await this.#store.close()
    await this.#open()
  }

  /** The bucket may refuse a start, loudly; a later one succeeds. */
  async #open(): Promise<void> {
    for (let attempt = 1; ; attempt++) {
      if (attempt > 3) this.#proxy.rate = 0
      try {
        this.#store = await this.directory.openOrCreate(this.#storeOptions())
        return
      } catch (error) {
        if (attempt > 4) throw error
        this.#assertLoud(error)
      }
    }
  }

  /** A node without files never starts another history, and never shows an empty cell or one of no backup. */
  async #totalLoss(): Promise<void> {
    this.#proxy.rate = 0
    // Also what changed in the catalog has to be in the bucket before the fire.
    await this.#store.core.catalogStored()
    await this.#store.close()
    fs.rmSync(this.directory.path, { recursive: true, force: true })
    this.counts.lost++
    this.#proxy.rate = this.#rate
    await this.#open()
    if (this.#store.id !== this.#storeId) throw new Error('An empty node has begun another history.')
    for (const [id, acknowledged] of this.#acknowledged) {
      await this.#loudly(async () => {
        await this.#store.openCell(id).ensureLocal()
        const token = this.#checkState(id)
        if (![...acknowledged.values()].includes(token))
          this.steps.push(`came back to an unacknowledged state`)
      })
    }
  }

  /** @returns the token of the attempt that the cell's content comes from */
  #checkState(id: string): string {
    const content = this.#contentOf(id)
    const token = this.#tokenOf(id)
    if (this.#states.get(token) !== content)
      throw new Error(`${id} holds what no attempt held: ${content.slice(-120)}`)
    return token
  }

  #tokenOf(id: string): string {
    const { rows } = this.#store
      .openCell(id)
      .sql<{ token: string }>('SELECT token FROM log ORDER BY n DESC LIMIT 1')
    return rows[0]?.token ?? ''
  }

  #contentOf(id: string): string {
    const sql =
      "SELECT group_concat(token || ':' || length(x) || ':' || hex(substr(x, 1, 4))) AS c FROM (SELECT * FROM log ORDER BY n)"
    return String(this.#store.openCell(id).sql<{ c: string }>(sql).rows[0]?.c)
  }

  async #loudly(work: () => Promise<void>): Promise<void> {
    try {
      await work()
    } catch (error) {
      this.#assertLoud(error)
      this.counts.refused++
    }
  }

  #assertLoud(error: unknown): void {
    if (!(error instanceof CellError) || !LOUD.includes(error.code)) throw error
  }
}
