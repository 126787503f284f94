import { randomUUID } from 'node:crypto'
import fs from 'node:fs'
import path from 'node:path'
import { isCellError } from '../../../src/errors.ts'
import type { CellStore } from '../../../src/store/cell-store.ts'
import type { Random } from '../random.ts'
import { StoreDirectory } from '../store-directory.ts'
import { tempDirectory } from '../temp-directory.ts'
import type { Storm } from './storms.ts'
import type { StormyBucket } from './stormy-bucket.ts'

const CELLS = 3

/**
 * A store whose bucket fails in every way that a bucket can. Each backup attempt first writes a token of its own to the
 * cell, so what a cell holds tells from which attempt it comes, and nothing has to be known of versions.
 */
export class BucketStorm implements Storm {
  readonly directory = StoreDirectory.ofTest(path.join(tempDirectory('cellstore-storm'), 'data'))
  readonly counts = { stored: 0, restored: 0, lost: 0, named: 0, proven: 0 }
  readonly steps: string[] = []
  readonly #bucket: StormyBucket
  readonly #random: Random
  /** What a cell held at each attempt, by its token. */
  readonly #states = new Map<string, string>()
  /** The tokens of the cell's acknowledged backups, oldest first, by version. */
  readonly #acknowledged = new Map<string, Map<string, string>>()
  #store!: CellStore
  #storeId = ''

  constructor(bucket: StormyBucket) {
    this.#bucket = bucket
    this.#random = bucket.random
    bucket.mayRefuseWith('backup_not_found', 'no_backup', 'cell_not_found')
  }

  async start(): Promise<void> {
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
    const faults = this.#bucket.rage()
    const id = this.#random.pick([...this.#acknowledged.keys()])
    const [name, run] = this.#random.pick<[string, () => Promise<void>]>([
      ['incremental', () => this.#bucket.loudly(() => this.#backup(id, 'incremental'))],
      ['incremental', () => this.#bucket.loudly(() => this.#backup(id, 'incremental'))],
      ['snapshot', () => this.#bucket.loudly(() => this.#backup(id, 'snapshot'))],
      ['two at once', () => this.#twoAtOnce(id)],
      ['restore', () => this.#bucket.loudly(() => this.#restore(id))],
      ['list', () => this.#bucket.loudly(async () => void (await this.#store.backups.list(id)))],
      ['reopen', () => this.#reopen()],
      ['total loss', () => this.#totalLoss()],
    ])
    this.steps.push(`${name} ${faults}`)
    await run()
    this.#bucket.calm()
  }

  /** The bucket is well again: backups succeed, and every acknowledged version is listed and restores to its state. */
  async prove(): Promise<void> {
    for (const [id, acknowledged] of this.#acknowledged) {
      await this.#bringBack(id)
      this.#checkState(id)
      await this.#backup(id, 'incremental')
      for (const version of await this.#unlisted(id)) await this.#name(id, version)
      const [unlisted] = await this.#unlisted(id)
      if (unlisted !== undefined) throw new Error(`${unlisted} was acknowledged, and is not listed.`)
      const { backups } = await this.#store.backups.list(id, { limit: 1_000 })
      for (const { version } of backups) {
        await this.#store.backups.restore(id, { version })
        const token = this.#checkState(id)
        const expected = acknowledged.get(version)
        if (expected !== undefined && token !== expected)
          throw new Error(`${version} restores to another state.`)
        this.counts.proven++
      }
    }
  }

  async dispose(): Promise<void> {
    await this.directory.close()
  }

  async #bringBack(id: string): Promise<void> {
    try {
      // If an empty node was shown an old catalog, it does not have the cell: then its id brings it back.
      if (this.#store.findCell(id) === undefined) await this.#store.backups.restore(id)
      await this.#store.openCell(id).ensureLocal()
    } catch (error) {
      if (!isCellError(error, 'backup_corrupt')) throw error
      await this.#name(id, [...(this.#acknowledged.get(id) as Map<string, string>).keys()].at(-1) as string)
    }
  }

  async #unlisted(id: string): Promise<string[]> {
    const { backups } = await this.#store.backups.list(id, { limit: 1_000 })
    const listed = new Set(backups.map(({ version }) => version))
    return [...(this.#acknowledged.get(id)?.keys() ?? [])].filter((version) => !listed.has(version))
  }

  /** A version that was flipped on the way at each read is remembered as damaged, until a restore that names it. */
  async #name(id: string, version: string): Promise<void> {
    if (!this.#bucket.injected['flipped']) throw new Error(`${version} is hidden, and nothing was flipped.`)
    await this.#store.backups.restore(id, { version })
    this.counts.named++
  }

  #storeOptions() {
    return { objectStore: this.#bucket.objectStore() }
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
      this.#bucket.loudly(() => this.#backup(id, 'incremental')),
      this.#bucket.loudly(() => this.#restore(other)),
    ])
  }

  async #reopen(): Promise<void> {
    await this.#store.close()
    await this.#open()
  }

  async #open(): Promise<void> {
    this.#store = await this.#bucket.untilOpen(() => this.directory.openOrCreate(this.#storeOptions()))
  }

  /** A node without files never starts another history, and never shows an empty cell or one of no backup. */
  async #totalLoss(): Promise<void> {
    // Also what changed in the catalog has to be in the bucket before the fire.
    await this.#bucket.calmly(async () => {
      await this.#store.core.catalogStored()
      await this.#store.close()
    })
    fs.rmSync(this.directory.path, { recursive: true, force: true })
    this.counts.lost++
    await this.#open()
    if (this.#store.id !== this.#storeId) throw new Error('An empty node has begun another history.')
    for (const [id, acknowledged] of this.#acknowledged) {
      await this.#bucket.loudly(async () => {
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
}
