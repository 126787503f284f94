import fs from 'node:fs'
import type { BackupOrigin } from '../../../../src/backup/versions/backup-types.ts'
import { compareVersions } from '../../../../src/backup/versions/object-keys.ts'
import { PLAN_DEFAULT } from '../../../../src/backup/versions/retention/retention-plan.ts'
import { definedOnly } from '../../../../src/base/options/option-shapes.ts'
import { CellError } from '../../../../src/errors.ts'
import { filesBelow } from '../../temp-directory.ts'
import { DAMAGES } from './bucket-damage.ts'
import { CellHistory } from './cell-history.ts'
import { HistoryWorld } from './history-world.ts'
import { Removals } from './removals.ts'

const MINUTE_MS = 60_000
const HOUR_MS = 60 * MINUTE_MS
const DAY_MS = 24 * HOUR_MS
const CELLS_MAX = 4
const ORIGINS: readonly BackupOrigin[] = ['schedule', 'schedule', 'owner', 'tenant']
const PLANS = [PLAN_DEFAULT, 'all:1h', 'all:6h,daily:9d', 'hourly:2d,daily:9d', 'all:2h,weekly:5w,yearly:3y']

/** A store with a few cells to which anything happens, against a model that knows what each version must hold. */
export class History extends HistoryWorld {
  async start(): Promise<void> {
    this.store = await this.place.create(this.options())
    for (let i = 0; i < 2; i++) await this.#createCell()
  }

  async step(): Promise<void> {
    const choices: [number, string, () => void | Promise<void>][] = [
      [10, 'write', () => this.write(this.existing())],
      [24, 'backup', () => this.#writeAndBackUp(this.existing())],
      [14, 'time', () => this.pass()],
      [2, 'clock', () => this.stepClock()],
      [6, 'prune', () => this.#prune(this.existing())],
      [8, 'mark and remove', () => this.#markAndRemove(this.existing())],
      [4, 'pin', () => this.#pin(this.existing())],
      [2, 'plan', () => this.#setPlan(this.existing())],
      [6, 'verify', () => this.#verify(this.existing())],
      [8, 'restore', () => this.#restore(this.any())],
      [5, 'damage', () => this.#damage(this.any())],
      [3, 'damage a note', () => this.#damageNote(this.existing())],
      [2, 'mend', () => this.bucket.mend()],
      [3, 'reopen', () => this.#reopen(() => {})],
      [4, 'lose a cell', () => this.#loseCell(this.existing())],
      [3, 'lose all', () => this.#loseAll()],
      [2, 'delete', () => this.#delete(this.existing())],
      [1, 'purge', () => this.#purge()],
      [2, 'create', () => this.#createCell()],
    ]
    let at = this.random.below(choices.reduce((sum, [weight]) => sum + weight, 0))
    for (const [weight, name, run] of choices) {
      if (at < weight) {
        this.steps.push(name)
        return await run()
      }
      at -= weight
    }
  }

  /** Every version that nobody damaged is offered and restores to its content; then the bucket holds nothing else. */
  async prove(): Promise<void> {
    this.bucket.mend()
    for (const cell of this.cells.filter(({ isPurged }) => !isPurged)) {
      for (const each of cell.stored) await this.restoreVersion(cell, each)
      await this.checkOffers(cell)
    }
    await this.store.core.catalogStored()
    await this.store.close()
    await this.place.folder().sweepUploads('', Number.MAX_SAFE_INTEGER)
    this.checkNothingLeft()
  }

  async #createCell(isNeeded = false): Promise<void> {
    if (!isNeeded && this.cells.filter(({ isPurged }) => !isPurged).length === CELLS_MAX) return
    const made = this.store.createCell()
    made.sql('CREATE TABLE log (n INTEGER PRIMARY KEY, token INTEGER, x BLOB)')
    const cell = new CellHistory(made.id, this.bucket)
    this.cells.push(cell)
    this.write(cell)
    await this.#backUp(cell, 'incremental')
  }

  async #writeAndBackUp(cell: CellHistory): Promise<void> {
    if (this.random.chance(0.9)) this.write(cell)
    await this.#backUp(cell, this.random.chance(0.3) ? 'snapshot' : 'incremental')
  }

  async #backUp(cell: CellHistory, kind: 'snapshot' | 'incremental'): Promise<void> {
    const origin = this.random.pick(ORIGINS)
    const content = cell.content as string
    const newest = cell.stored[0]
    const removals = new Removals(cell, this.bucket)
    const made = await this.store.backups[kind](cell.id, { origin })
    const { version, baseVersion, createdAt } = made
    let chain: string[] = []
    if (baseVersion !== null) {
      if (newest === undefined) throw new Error(`${version} continues nothing.`)
      chain = [...newest.chain, newest.version]
      if (chain[0] !== baseVersion) throw new Error(`${version} does not continue the newest version.`)
    }
    for (const other of cell.versions.keys())
      if (compareVersions(version, other) >= 0) throw new Error(`${version} is not newer than ${other}.`)
    cell.made({ version, content, chain, origin, createdAt })
    this.counts.backups++
    this.counts.removed += removals.check(this.place.clock.now(), this.keep)
    const latest = await this.store.backups.latest(cell.id)
    if (latest?.version !== version)
      throw new Error(`${version} is the newest, and ${latest?.version} is offered.`)
  }

  async #prune(cell: CellHistory): Promise<void> {
    const removals = new Removals(cell, this.bucket)
    const said = await this.store.retention?.prune(cell.id, { dryRun: true })
    if (removals.check(this.place.clock.now(), this.keep) > 0)
      throw new Error('A dry run has removed something.')
    const done = await this.store.retention?.prune(cell.id)
    if (JSON.stringify(done) !== JSON.stringify(said))
      throw new Error('A prune does what its dry run has not said.')
    if (said?.plan !== (cell.plan ?? this.keep)) throw new Error(`The plan is ${said?.plan}.`)
    this.counts.removed += removals.check(this.place.clock.now(), this.keep)
  }

  async #markAndRemove(cell: CellHistory): Promise<void> {
    await this.#prune(cell)
    this.place.clock.advance(DAY_MS)
    await this.#prune(cell)
  }

  async #pin(cell: CellHistory): Promise<void> {
    const { retention } = this.store
    const [pinned] = cell.pins
    if (pinned !== undefined && this.random.chance(0.4)) {
      await retention?.unpin(cell.id, pinned)
      cell.pins.delete(pinned)
    } else if (cell.stored.length > 0) {
      const { version } = this.random.pick(cell.stored)
      await retention?.pin(cell.id, version)
      cell.pins.add(version)
    }
  }

  async #setPlan(cell: CellHistory): Promise<void> {
    cell.plan = this.random.chance(0.3) ? undefined : this.random.pick(PLANS)
    await this.store.retention?.setPlan(cell.id, cell.plan ?? null)
  }

  async #verify(cell: CellHistory): Promise<void> {
    const { last } = cell
    if (last === undefined) return
    const made = this.random.chance(0.5) ? last : this.random.pick(cell.stored)
    const version = made === last ? undefined : made.version
    const proof = await this.outcome(this.store.backups.verify(cell.id, definedOnly({ version })))
    // This machine knows what it stored last, even if nobody lists it any more.
    const gone = [...cell.versions.keys()].filter((key) => !this.bucket.has(key))
    if (
      proof instanceof CellError &&
      version === undefined &&
      gone.some((key) => proof.message.includes(key))
    )
      return
    if (proof instanceof CellError) this.checkRefusal(proof, cell, made)
    else if (proof.version !== made.version)
      throw new Error(`${proof.version} is proven, not ${made.version}.`)
  }

  async #restore(cell: CellHistory): Promise<void> {
    if (cell.stored.length === 0) return
    await this.restoreVersion(cell, this.random.pick(cell.stored))
    if (this.random.chance(0.3)) await this.checkOffers(cell)
  }

  #damage(cell: CellHistory): void {
    const [made, other] = [this.random.pick(cell.stored), this.random.pick(this.any().stored)]
    if (made === undefined || other === undefined) return
    const how = this.random.pick(DAMAGES)
    this.steps.push(how)
    this.bucket.damage(made.version, how, other.version)
    this.counts.damaged++
  }

  /** Retention goes by what the notes say: one that is damaged stops it, and is never taken for another. */
  async #damageNote(cell: CellHistory): Promise<void> {
    const notes = this.bucket.keys(cell.prefix).filter((key) => /\/(marks|proven|plan)-/.test(key))
    if (notes.length === 0) return
    const key = this.random.pick(notes)
    const others = this.bucket
      .keys()
      .filter((each) => each !== key && each.includes(key.split('/')[2]?.split('-')[0] as string))
    const how = others.length === 0 ? 'flipped' : this.random.pick(['cut', 'flipped', 'swapped'] as const)
    const dryRun = async () => this.store.retention?.prune(cell.id, { dryRun: true })
    const whole = await dryRun()
    this.bucket.damage(key, how, others.length === 0 ? key : this.random.pick(others))
    if (!this.bucket.isDamaged(key)) return
    const outcome = await this.outcome(dryRun())
    const isRefused = outcome instanceof CellError && outcome.code === 'backup_corrupt'
    const isNamed = isRefused && outcome.message.includes(key)
    // A flip in the name of its checksum leaves all that counts.
    if (!isNamed && JSON.stringify(outcome) !== JSON.stringify(whole))
      throw new Error(`${key} was ${how}, and retention went by it.`, { cause: outcome })
    this.bucket.mend()
  }

  async #reopen(meanwhile: () => void): Promise<void> {
    await this.store.close()
    meanwhile()
    this.store = await this.place.open(this.options())
  }

  async #loseCell(cell: CellHistory): Promise<void> {
    const { cells, localState } = this.place.paths
    await this.store.close()
    fs.rmSync(this.place.paths.cell(cell.id).directory, { recursive: true, force: true })
    const isEmpty = filesBelow(cells).length === 0
    if (isEmpty) fs.rmSync(cells, { recursive: true })
    const opened = await this.outcome(this.place.open(this.options()))
    if (!(opened instanceof CellError)) this.store = opened
    else if (isEmpty && opened.code === 'cells_missing') {
      // As its message says.
      fs.rmSync(localState)
      for (const each of this.cells) each.machineLost()
      this.store = await this.place.open(this.options())
    } else throw opened
    const lost = isEmpty ? this.cells.filter(({ isDeleted, isPurged }) => !isDeleted && !isPurged) : [cell]
    for (const each of lost) await this.#comeBack(each)
  }

  async #loseAll(): Promise<void> {
    await this.store.core.catalogStored()
    const { id } = this.store
    await this.store.close()
    this.place.loseData()
    // Nobody gets a new machine within a millisecond.
    this.place.clock.advance(MINUTE_MS)
    this.store = await this.place.openOrCreate(this.options())
    if (this.store.id !== id) throw new Error('History has forked.')
    for (const cell of this.cells) cell.machineLost()
    for (const cell of this.cells.filter(({ isDeleted, isPurged }) => !isDeleted && !isPurged))
      await this.#comeBack(cell)
  }

  /** The cell's last state comes back, or it is refused and the newest whole one is offered. */
  async #comeBack(cell: CellHistory): Promise<void> {
    this.counts.lost++
    cell.content = undefined
    const { last } = cell
    const told = this.log.errors.length
    const outcome = await this.outcome(this.store.openCell(cell.id).ensureLocal())
    if (!(outcome instanceof CellError) && last !== undefined) {
      this.checkContent(cell, last.content, last.version)
      const isLoud = this.log.errors.slice(told).some((each) => each['cellId'] === cell.id)
      if (cell.known !== undefined && cell.known !== last.version && !isLoud)
        throw new Error(`${cell.known} is gone, and ${last.version} comes back in its place without a word.`)
      cell.restored(last.version)
      return
    }
    if (outcome instanceof CellError && last !== undefined) this.checkRefusal(outcome, cell, last, true)
    else if (!(outcome instanceof CellError) || outcome.code !== 'no_backup')
      throw new Error('It comes from nowhere.')
    for (const each of cell.stored) if (await this.restoreVersion(cell, each)) return
    await this.#delete(cell)
  }

  async #delete(cell: CellHistory): Promise<void> {
    if (this.cells.filter(({ isDeleted, isPurged }) => !isDeleted && !isPurged).length === 1)
      await this.#createCell(true)
    this.store.deleteCell(cell.id)
    cell.isDeleted = true
    cell.content = undefined
  }

  async #purge(): Promise<void> {
    const cell = this.cells.find(({ isDeleted, isPurged }) => isDeleted && !isPurged)
    if (cell === undefined) return
    await this.store.purgeCell(cell.id)
    cell.isPurged = true
    this.counts.purged++
    if (this.bucket.keys(cell.prefix).length > 0) throw new Error('A purge has left something.')
    const version = [...cell.versions.keys()][0] as string
    const outcome = await this.outcome(this.store.backups.restore(cell.id, { version }))
    if (!(outcome instanceof CellError)) throw new Error('A purged cell has come back.')
  }
}
