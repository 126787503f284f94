import { randomUUID } from 'node:crypto'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { CellStore } from '../../src/store/cell-store.ts'
import { addRow, createLedger, notes, ScratchPlace } from '../support/backup/scratch-store.ts'
import { StoreProcess } from '../support/backup/store-process.ts'
import { countOf } from '../support/counts.ts'
import { KillAtEachRequest } from '../support/s3/kill-at-each-request.ts'
import { keysOf } from '../support/s3/object-store-checks.ts'
import { ProxiedBucket } from '../support/s3/proxied-bucket.ts'
import { seededRandom } from '../support/seed.ts'
import { filesBelow } from '../support/temp-directory.ts'

const KILLS = countOf('CELLSTORE_REQUEST_KILLS')
const DAY_MS = 86_400_000
const SETTINGS = { backups: { keep: 'all:1h', prune: false } }
const UPLOADS = 3

type Order = 'prune' | 'verify' | 'purge' | 'sweep'

let bucket: ProxiedBucket
beforeAll(async () => {
  bucket = await ProxiedBucket.start(seededRandom())
  const { AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY } = bucket.environment('')
  Object.assign(process.env, { AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY })
})
afterAll(() => bucket.stop())

/** A cell with more versions than its plan keeps, whose upkeep is done by a process that is killed in it. */
class KilledUpkeep {
  readonly place = new ScratchPlace()
  readonly prefix = `upkeep-${randomUUID()}`
  /** What each version of the cell holds. */
  readonly #contents = new Map<string, string[]>()
  store!: CellStore
  cellId = ''
  /** Another cell, which is deleted. */
  deletedId = ''

  constructor() {
    this.place.directory.mayHaveLogs = true
  }

  get url(): string {
    return bucket.url(this.prefix)
  }

  async open(): Promise<void> {
    this.store = await this.place.openOrCreate({ ...SETTINGS, objectStore: this.url })
    this.cellId ||= createLedger(this.store).id
  }

  /** Two versions more, older ones that are marked to go now, a deleted cell, and uploads that nobody finishes. */
  async prepare(): Promise<void> {
    const { store, place } = this
    const cell = store.openCell(this.cellId)
    for (const kind of ['snapshot', 'incremental'] as const) {
      addRow(cell, `row ${this.#contents.size}`, 2_000)
      const { version } = await store.backups[kind](cell.id)
      this.#contents.set(version, notes(cell))
    }
    place.clock.advance(2 * DAY_MS)
    await store.retention?.prune(cell.id)
    place.clock.advance(DAY_MS)
    const other = createLedger(store)
    for (let i = 0; i < 3; i++) {
      addRow(other, `row ${i}`)
      await store.backups.incremental(other.id)
    }
    store.deleteCell(other.id)
    this.deletedId = other.id
    await store.core.catalogStored()
    await store.close()
    for (let i = 0; i < UPLOADS; i++)
      await bucket.strand(`${this.prefix}/snapshots/${cell.id}/backup-2020010${i + 1}T000000.000Z`)
  }

  async runAndKill(order: Order, kill: KillAtEachRequest): Promise<void> {
    const { data, clock } = this.place
    const child = await StoreProcess.open({ data, clock, objects: this.url }, SETTINGS)
    const cellId = order === 'purge' ? this.deletedId : this.cellId
    const killed = new Promise<void>((resolve) => {
      kill.arm(() => {
        resolve(child.kill())
        return true
      })
    })
    await Promise.race([child.order(order === 'sweep' ? { do: order } : { do: order, cellId }), killed])
    if (kill.disarm() === 'ended') await child.kill()
  }

  /** Everything that has to be there is, the order succeeds once more, and nothing is left that nobody can use. */
  async prove(order: Order): Promise<void> {
    await this.open()
    const { store, cellId } = this
    if (order === 'purge') {
      const { backups } = await store.backups.list(this.deletedId).catch(() => ({ backups: [] }))
      for (const { version } of backups) await store.backups.verify(this.deletedId, { version })
    }
    const said = await store.retention?.prune(cellId)
    for (const { version, action } of said?.versions ?? []) {
      if (action !== 'remove') await this.#expectRestores(version)
    }
    await store.backups.verify(cellId)
    await store.purgeCell(this.deletedId)
    const objects = bucket.objects(this.prefix)
    await objects.sweepUploads('', Date.UTC(2100, 0))
    expect(await objects.sweepUploads('', Date.UTC(2100, 0))).toBe(0)
    const { backups } = await store.backups.list(cellId, { limit: 1_000 })
    const keys = await keysOf(objects, `snapshots/${cellId}/`)
    const versions = keys.filter((key) => key.includes('/backup-'))
    expect(versions.sort()).toEqual(backups.map(({ version }) => version).sort())
    for (const kind of ['marks', 'proven', 'plan', 'restored'])
      expect(keys.filter((key) => key.includes(`/${kind}-`)).length, kind).toBeLessThanOrEqual(1)
    expect(await keysOf(objects, `snapshots/${this.deletedId}/`)).toEqual([])
    await objects.close()
    const left = filesBelow(this.place.data).filter((file) => /(^|\/)(spool\/|incoming)/.test(file))
    expect(left).toEqual([])
  }

  async #expectRestores(version: string): Promise<void> {
    await this.store.backups.restore(this.cellId, { version })
    expect([version, notes(this.store.openCell(this.cellId))]).toEqual([version, this.#contents.get(version)])
  }
}

describe('A process that is killed at any request to its bucket (invariants 9, 10, 13)', () => {
  test.each<Order>(['prune', 'verify', 'purge', 'sweep'])(
    `of a %s loses nothing and leaves no garbage: ${KILLS} kills`,
    { timeout: 180_000 + KILLS * 20_000 },
    async (order) => {
      const upkeep = new KilledUpkeep()
      const kill = new KillAtEachRequest(bucket.proxy)
      await upkeep.open()
      for (let round = 0; round < KILLS; round++) {
        await upkeep.prepare()
        await upkeep.runAndKill(order, kill)
        await upkeep.prove(order)
      }
      console.info(`a ${order}: ${kill}`)
      expect(kill.kills).toBeGreaterThan(0)
    },
  )
})
