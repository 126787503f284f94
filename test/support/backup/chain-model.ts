import { setTimeout as sleep } from 'node:timers/promises'
import { vi } from 'vitest'
import { ChangeTracker } from '../../../src/backup/changes/change-tracker.ts'
import { Segments } from '../../../src/backup/changes/log/segments.ts'
import { isCellError } from '../../../src/errors.ts'
import type { CellStore } from '../../../src/store/cell-store.ts'
import type { Cell } from '../../../src/store/open/cell.ts'
import type { Random } from '../random.ts'
import { digestOf } from './database-digest.ts'
import { ForeignProgram } from './foreign-program.ts'
import { FailingStore } from './object-store-decorators.ts'
import { ScratchPlace } from './scratch-store.ts'
import { StoreProcess } from './store-process.ts'

const SETTINGS = { openCellsMax: 1, checkpointBytes: 40_000 }
const TABLES = ['alpha', 'beta', 'gamma']

/**
 * A cell to which anything happens that can: writes, closings, kills, other programs, failures, restores, clocks. What
 * each of its versions holds is known from the moment of its cut, so that at the end every one can be proven.
 */
export class ChainModel {
  readonly place = new ScratchPlace()
  readonly #random: Random
  readonly #failing = new FailingStore(this.place.folder())
  /** What each version holds, also of those that may not be stored. */
  readonly #states = new Map<string, string>()
  readonly #acknowledged = new Set<string>()
  readonly steps: string[] = []
  readonly counts = { bases: 0, incrementals: 0, refused: 0, kills: 0 }
  #store!: CellStore
  #cell!: Cell
  #other!: Cell
  #foreign: ForeignProgram | undefined

  constructor(random: Random) {
    this.#random = random
  }

  async start(): Promise<void> {
    this.#recordStates()
    this.#store = await this.place.create({ ...SETTINGS, objectStore: this.#failing })
    this.#cell = this.#store.createCell()
    this.#other = this.#store.createCell()
    for (const table of TABLES) this.#cell.sql(`CREATE TABLE ${table} (n INTEGER PRIMARY KEY, x)`)
  }

  async step(): Promise<void> {
    const [name, run] = this.#choose()
    this.steps.push(name)
    await run()
  }

  /** Every version that is listed restores to exactly what it held at its cut, and none that was acknowledged is missing. */
  async prove(): Promise<number> {
    await this.#foreign?.close()
    this.#foreign = undefined
    await this.#reopen()
    const { backups } = await this.#store.backups.list(this.#cell.id, { limit: 1_000 })
    const listed = new Set(backups.map(({ version }) => version))
    for (const version of this.#acknowledged) {
      if (!listed.has(version)) throw new Error(`${version} was acknowledged, and is not listed.`)
    }
    for (const { version } of backups) {
      await this.#store.backups.restore(this.#cell.id, { version })
      if (digestOf(this.#cell) !== this.#states.get(version))
        throw new Error(`${version} restores to another state.`)
      const [check] = this.#cell.sql('PRAGMA integrity_check').rows
      if (check?.['integrity_check'] !== 'ok') throw new Error(`${version} fails integrity_check.`)
    }
    return backups.length
  }

  async dispose(): Promise<void> {
    vi.restoreAllMocks()
    await this.#foreign?.close()
    await this.place.directory.close()
  }

  #choose(): [string, () => void | Promise<void>] {
    const choices: [number, string, () => void | Promise<void>][] = [
      [30, 'write', () => this.#write(1 + this.#random.below(3), 300)],
      [8, 'write much', () => this.#write(1 + this.#random.below(20), 20_000)],
      [3, 'change the schema', () => this.#changeSchema()],
      [4, 'put keys', () => this.#putKeys()],
      [3, 'commit in a group', () => this.#commitInGroup()],
      [10, 'let the pool close it', () => void this.#other.sql('PRAGMA user_version')],
      [20, 'incremental', () => this.#backup('incremental')],
      [4, 'snapshot', () => this.#backup('snapshot')],
      [8, 'incremental that fails', () => this.#failedBackup('incremental')],
      [3, 'snapshot that fails', () => this.#failedBackup('snapshot')],
      [6, 'write during an upload', () => this.#writeDuringUpload()],
      [5, 'reopen the store', () => this.#reopen()],
      [4, 'another process, killed', () => this.#killedProcess()],
      [14, 'another program', () => this.#anotherProgram()],
      [3, 'restore', () => this.#restore()],
      [2, 'delete and restore', () => this.#deleteAndRestore()],
      [4, 'step the clock', () => this.#stepClock()],
      [3, 'a full disk', () => this.#fullDisk()],
    ]
    let at = this.#random.below(choices.reduce((sum, [weight]) => sum + weight, 0))
    for (const [weight, name, run] of choices) {
      if (at < weight) return [name, run]
      at -= weight
    }
    throw new Error('The weights do not add up.')
  }

  #recordStates(): void {
    const { cut } = ChangeTracker.prototype
    const record = (version: string) => {
      if (version.includes(this.#cell.id)) this.#states.set(version, digestOf(this.#cell))
    }
    vi.spyOn(ChangeTracker.prototype, 'cut').mockImplementation(function (
      this: ChangeTracker,
      database,
      version,
    ) {
      record(version)
      return cut.call(this, database, version)
    })
  }

  /** SQL that changes some rows of some table, for whoever runs it. */
  #change(bytes: number): string {
    const table = this.#random.pick(TABLES)
    const size = 1 + this.#random.below(bytes)
    const some = `n % ${2 + this.#random.below(5)} = 0`
    return this.#random.pick([
      `INSERT INTO ${table} (x) VALUES (randomblob(${size}))`,
      `INSERT INTO ${table} (x) SELECT randomblob(${size}) FROM json_each('[1,2,3,4,5]')`,
      `UPDATE ${table} SET x = randomblob(${size}) WHERE ${some}`,
      `DELETE FROM ${table} WHERE ${some} AND n > 20`,
    ])
  }

  /** Another program's lock, or its change of the schema, can be in the way; then nothing was written. */
  #try(work: () => void): void {
    try {
      work()
    } catch (error) {
      if (!isCellError(error, 'busy')) throw error
    }
  }

  #write(statements: number, bytes: number): void {
    this.#try(() => {
      if (this.#random.chance(0.5)) for (let i = 0; i < statements; i++) this.#cell.sql(this.#change(bytes))
      else
        this.#cell.transaction(() => {
          for (let i = 0; i < statements; i++) this.#cell.sql(this.#change(bytes))
        })
    })
  }

  #changeSchema(): void {
    const table = this.#random.pick(TABLES)
    this.#try(() => {
      this.#cell.sql(`DROP INDEX IF EXISTS ${table}_by_length`)
      if (this.#random.chance(0.7)) this.#cell.sql(`CREATE INDEX ${table}_by_length ON ${table} (length(x))`)
      this.#cell.sql(`PRAGMA user_version = ${this.#random.below(1_000)}`, [], { policy: 'tenant' })
    })
  }

  #putKeys(): void {
    this.#try(() => {
      for (let i = 0; i < 5; i++)
        this.#cell.kv.put(`key:${this.#random.below(20)}`, `${this.#random.below(1_000)}`)
      this.#cell.kv.delete(`key:${this.#random.below(20)}`)
    })
  }

  async #commitInGroup(): Promise<void> {
    const work = Array.from({ length: 5 }, () => this.#change(500))
    await Promise.allSettled(work.map((sql) => this.#cell.commit(() => this.#cell.sql(sql))))
  }

  async #backup(kind: 'snapshot' | 'incremental'): Promise<void> {
    try {
      const { version, baseVersion } = await this.#store.backups[kind](this.#cell.id)
      this.#acknowledged.add(version)
      this.counts[baseVersion === null ? 'bases' : 'incrementals']++
    } catch (error) {
      // A reader of another program's can hold the checkpoint up.
      if (!isCellError(error, 'busy')) throw error
      this.counts.refused++
    }
  }

  async #failedBackup(kind: 'snapshot' | 'incremental'): Promise<void> {
    this.#failing.failFromHere(1 + this.#random.below(3))
    this.#failing.afterTheFact = this.#random.chance(0.3)
    try {
      await this.#backup(kind)
    } catch (error) {
      if (!isCellError(error, 'object_store_unavailable')) throw error
    } finally {
      this.#failing.failAt = 0
      this.#failing.afterTheFact = false
    }
  }

  /** The backup's promise is awaited only after other things have happened. */
  async #writeDuringUpload(): Promise<void> {
    const backup = this.#backup('incremental')
    for (let i = this.#random.below(6); i >= 0; i--) {
      await new Promise(setImmediate)
      this.#write(1, 20_000)
      if (this.#random.chance(0.3)) this.#other.sql('PRAGMA user_version')
    }
    await backup
  }

  async #reopen(): Promise<void> {
    await this.#store.close()
    await this.#openAgain()
  }

  async #openAgain(): Promise<void> {
    this.#store = await this.place.open({ ...SETTINGS, objectStore: this.#failing })
    this.#cell = this.#store.openCell(this.#cell.id)
    this.#other = this.#store.openCell(this.#other.id)
  }

  async #killedProcess(): Promise<void> {
    await this.#store.close()
    const child = await StoreProcess.open(this.place, SETTINGS)
    const orders = Array.from({ length: 1 + this.#random.below(6) }, () => this.#random.below(4))
    // The kill comes in the middle of one of them, or after all.
    const killAfterMs = this.#random.below(120)
    const work = (async () => {
      for (const order of orders) {
        if (order < 2) await child.sql(this.#cell.id, this.#change(20_000)).catch(() => {})
        else {
          const result = await child
            .backup(order === 2 ? 'incremental' : 'snapshot', this.#cell.id)
            .catch(() => undefined)
          if (result !== undefined) this.#acknowledged.add(result.version)
        }
      }
    })()
    await Promise.race([work, sleep(killAfterMs)])
    await child.kill()
    for (const [version, digest] of child.attempts) this.#states.set(version, digest)
    this.counts.kills++
    await this.#openAgain()
  }

  async #anotherProgram(): Promise<void> {
    if (this.#foreign === undefined) {
      if (this.#random.chance(0.5))
        await this.#store
          .close()
          .then(() => this.#useForeign())
          .then(() => this.#openAgain())
      else await this.#useForeign()
      return
    }
    await this.#useForeign()
  }

  /** Opens it, lets it do something, or closes it; whatever it does may be refused by a lock. */
  async #useForeign(): Promise<void> {
    const { database } = this.place.paths.cell(this.#cell.id)
    this.#foreign ??= await ForeignProgram.open(database)
    for (let i = this.#random.below(4); i >= 0; i--) {
      const sql = this.#random.pick([
        this.#change(5_000),
        this.#change(5_000),
        'PRAGMA wal_checkpoint(PASSIVE)',
        'PRAGMA wal_checkpoint(TRUNCATE)',
        'BEGIN; SELECT count(*) FROM alpha',
        'COMMIT',
        'PRAGMA wal_autocheckpoint = 4',
      ])
      await this.#foreign.exec(sql).catch(() => {})
    }
    if (this.#random.chance(0.4)) {
      await this.#foreign.close()
      this.#foreign = undefined
    }
  }

  async #restore(): Promise<void> {
    const { backups } = await this.#store.backups.list(this.#cell.id, { limit: 1_000 })
    if (backups.length === 0) return
    await this.#endForeign()
    const { version } = this.#random.pick(backups)
    await this.#store.backups.restore(this.#cell.id, { version })
    if (digestOf(this.#cell) !== this.#states.get(version))
      throw new Error(`${version} restored to another state.`)
  }

  async #deleteAndRestore(): Promise<void> {
    const { backups } = await this.#store.backups.list(this.#cell.id, { limit: 1_000 })
    if (backups.length === 0) return
    await this.#endForeign()
    this.#store.deleteCell(this.#cell.id)
    const { version } = this.#random.pick(backups)
    await this.#store.backups.restore(this.#cell.id, { version })
  }

  /** What it has open after a restore is a file that nobody else sees. */
  async #endForeign(): Promise<void> {
    await this.#foreign?.close()
    this.#foreign = undefined
  }

  #stepClock(): void {
    const ms = this.#random.pick([-3_600_000, -86_400_000, -1, 1, 1_000, 3_600_000])
    this.place.clock.step(ms)
  }

  /** A log that can't be kept ends the chain, and nothing else. */
  #fullDisk(): void {
    const full = Object.assign(new Error('ENOSPC: no space left on device, write'), {
      code: 'ENOSPC',
      syscall: 'write',
    })
    const spy = vi.spyOn(Segments.prototype, 'keep').mockImplementation(() => {
      throw full
    })
    this.#write(5, 30_000)
    spy.mockRestore()
  }
}
