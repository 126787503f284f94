import fs from 'node:fs'
import path from 'node:path'
import { PLAN_DEFAULT } from '../../../../src/backup/versions/retention/retention-plan.ts'
import { CellError, type CellErrorCode } from '../../../../src/errors.ts'
import type { CellStore } from '../../../../src/store/cell-store.ts'
import { KeptLog } from '../../kept-log.ts'
import type { Random } from '../../random.ts'
import { filesBelow } from '../../temp-directory.ts'
import { ScratchPlace } from '../scratch-store.ts'
import { BucketDamage } from './bucket-damage.ts'
import type { CellHistory, MadeVersion } from './cell-history.ts'

const MINUTE_MS = 60_000
const HOUR_MS = 60 * MINUTE_MS
const DAY_MS = 24 * HOUR_MS
const PLANS = [PLAN_DEFAULT, 'all:1h', 'all:6h,daily:9d', 'hourly:2d,daily:9d', 'all:2h,weekly:5w,yearly:3y']

/** A store with a few cells, its bucket, and the checks of both against the model. */
export class HistoryWorld {
  readonly steps: string[] = []
  readonly counts = { backups: 0, restored: 0, refused: 0, removed: 0, lost: 0, damaged: 0, purged: 0 }
  protected readonly place = new ScratchPlace()
  protected readonly random: Random
  protected readonly bucket: BucketDamage
  protected readonly keep: string
  protected readonly cells: CellHistory[] = []
  protected readonly log = new KeptLog()
  /** The latest time that the clock has shown before a step. */
  protected latest = 0
  protected store!: CellStore

  constructor(random: Random) {
    this.random = random
    this.bucket = new BucketDamage(this.place.objects, random)
    this.keep = random.pick(PLANS)
  }

  async dispose(): Promise<void> {
    await this.place.directory.close()
  }

  protected options() {
    return { backups: { keep: this.keep }, log: this.log }
  }

  protected existing(): CellHistory {
    return this.random.pick(this.cells.filter(({ isDeleted, isPurged }) => !isDeleted && !isPurged))
  }

  protected any(): CellHistory {
    return this.random.pick(this.cells.filter(({ isPurged }) => !isPurged))
  }

  protected write(cell: CellHistory): void {
    const sql = this.random.pick([
      'INSERT INTO log (token, x) VALUES (?1, randomblob(?2))',
      'INSERT INTO log (token, x) VALUES (?1, zeroblob(?2))',
      'UPDATE log SET token = ?1 WHERE n % 3 = ?2 % 3',
      'DELETE FROM log WHERE n % 4 = ?2 % 4 AND token <> ?1',
    ])
    this.store.openCell(cell.id).sql(sql, [this.random.below(2 ** 31), 1 + this.random.below(3_000)])
    cell.content = this.contentOf(cell)
  }

  protected contentOf({ id }: CellHistory): string {
    const sql =
      "SELECT group_concat(n || ':' || token || ':' || length(x)) AS c FROM (SELECT * FROM log ORDER BY n)"
    return String(this.store.openCell(id).sql<{ c: string }>(sql).rows[0]?.c)
  }

  protected pass(): void {
    const ms = this.random.pick([
      1,
      15 * MINUTE_MS,
      HOUR_MS,
      7 * HOUR_MS,
      DAY_MS,
      DAY_MS,
      9 * DAY_MS,
      40 * DAY_MS,
    ])
    this.place.clock.advance(ms)
  }

  /** Not back by a day of versions or more: of a version that far ahead, nobody can tell damage from another hand. */
  protected stepClock(): void {
    const { clock } = this.place
    this.latest = Math.max(this.latest, clock.now())
    const steps = [-400 * DAY_MS, -DAY_MS, -HOUR_MS, HOUR_MS, DAY_MS, 400 * DAY_MS]
    const ms = this.random.pick(steps.filter((each) => clock.now() + each > this.latest - DAY_MS))
    clock.step(ms)
  }

  /** @returns whether it was restored, and not refused */
  protected async restoreVersion(cell: CellHistory, made: MadeVersion): Promise<boolean> {
    const outcome = await this.outcome(this.store.backups.restore(cell.id, { version: made.version }))
    if (outcome instanceof CellError) {
      this.checkRefusal(outcome, cell, made)
      if (cell.content !== undefined) this.checkContent(cell, cell.content, 'a refused restore')
      return false
    }
    this.checkContent(cell, made.content, made.version)
    cell.restored(made.version)
    this.counts.restored++
    return true
  }

  protected checkContent(cell: CellHistory, expected: string, what: string): void {
    const held = this.contentOf(cell)
    if (held !== expected) throw new Error(`${what} leaves ${held}, not ${expected}.`)
  }

  /**
   * A refusal names an object that is damaged or missing.
   *
   * @param remembers what was found damaged is not read again unless somebody asks for it by name
   */
  protected checkRefusal(error: CellError, cell: CellHistory, made: MadeVersion, remembers = false): void {
    const damaged = remembers
      ? [...made.chain, made.version].filter((key) => this.bucket.wasDamaged(key))
      : cell.damaged(made)
    const codes: CellErrorCode[] = ['backup_corrupt', 'backup_not_found']
    const isNamed = damaged.some((key) => error.message.includes(key))
    if (!codes.includes(error.code) || !isNamed) {
      const what = `${made.version} is refused with ${error.code} (${error.message}), damaged: ${damaged}`
      throw new Error(what, { cause: error })
    }
    this.counts.refused++
  }

  /** All that nobody ever damaged is listed, and nothing that was never stored or cannot be whole. */
  protected async checkOffers(cell: CellHistory): Promise<void> {
    const { backups } = await this.store.backups.list(cell.id, { limit: 1_000 })
    const listed = backups.map(({ version }) => version)
    for (const version of listed) cell.of(version)
    const missing = cell.stored.find((each) => cell.isClean(each) && !listed.includes(each.version))
    if (missing !== undefined) throw new Error(`${missing.version} is whole, and not listed.`)
    const gap = listed.find((version) => cell.of(version).chain.some((link) => !this.bucket.has(link)))
    if (gap !== undefined) throw new Error(`${gap} is listed, and its chain has a gap.`)
  }

  protected async outcome<T>(work: Promise<T>): Promise<T | CellError> {
    return await work.catch((error: unknown) => {
      if (error instanceof CellError) return error
      throw error
    })
  }

  /** What each object of the bucket is for. */
  protected checkNothingLeft(): void {
    const allowed = new Set(['store.json'])
    // No fence is ever removed, whatever is purged and pruned.
    const fences = this.bucket.keys('fence/')
    if (!fences.at(-1)?.endsWith(String(fences.length).padStart(10, '0')))
      throw new Error(`Of the fences these are left: ${fences.join(', ')}`)
    for (const key of [...fences, ...this.bucket.keys('holder/')]) allowed.add(key)
    for (const cell of this.cells.filter(({ isPurged }) => !isPurged)) {
      for (const { version } of cell.stored) allowed.add(version)
      for (const version of cell.pins) allowed.add(version.replace('/backup-', '/pin-'))
      for (const kind of ['marks', 'proven', 'plan', 'restored']) {
        const notes = this.bucket.keys(cell.prefix).filter((key) => key.includes(`/${kind}-`))
        if (notes[0] !== undefined) allowed.add(notes[0])
      }
    }
    const left = this.bucket.keys().filter((key) => !allowed.has(key) && !key.includes(this.store.id))
    if (left.length > 0) throw new Error(`In the bucket is left: ${left.join(', ')}`)
    const uploads = path.join(this.place.objects, '.cellstore', 'uploads')
    if (fs.existsSync(uploads) && filesBelow(uploads).length > 0) throw new Error('Uploads are left.')
    const files = filesBelow(this.place.data).filter((file) => /(^|\/)(spool\/|incoming)/.test(file))
    if (files.length > 0) throw new Error(`On the disk is left: ${files.join(', ')}`)
  }
}
