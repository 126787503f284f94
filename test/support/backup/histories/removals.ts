import {
  parsePlan,
  periodOf,
  TENANT_PLAN_DEFAULT,
} from '../../../../src/backup/versions/retention/retention-plan.ts'
import type { BucketDamage } from './bucket-damage.ts'
import type { CellHistory, MadeVersion } from './cell-history.ts'

const DAY_MS = 86_400_000

/** What retention may go by: the notes in the bucket, before it looked. */
interface Notes {
  marks: Record<string, number>
  proven: string | undefined
}

/** What lay in a cell's prefix before something that may remove versions. */
export class Removals {
  readonly #cell: CellHistory
  readonly #bucket: BucketDamage
  readonly #before: MadeVersion[]
  readonly #notes: Notes

  constructor(cell: CellHistory, bucket: BucketDamage) {
    this.#cell = cell
    this.#bucket = bucket
    this.#before = cell.stored
    this.#notes = { marks: this.#newest('marks')?.marks ?? {}, proven: this.#newest('proven')?.version }
  }

  /** Checks everything that went, by the naive reading of what is promised. @returns how many went */
  check(now: number, storePlan: string): number {
    const gone = this.#before.filter(({ version }) => !this.#bucket.has(version))
    const left = this.#before.filter(({ version }) => this.#bucket.has(version))
    for (const each of gone) {
      this.#checkMark(each, now)
      this.#checkAlwaysStays(each)
      this.#checkPlan(each, left, now, this.#cell.plan ?? storePlan)
      if (each.origin === 'tenant') this.#checkPlan(each, left.filter(isTenants), now, TENANT_PLAN_DEFAULT)
    }
    for (const { version, chain } of left) {
      // What a damaged object rests on is written in it.
      if (this.#bucket.isDamaged(version)) continue
      const missing = chain.find((link) => gone.some((each) => each.version === link))
      if (missing !== undefined) throw new Error(`${missing} went, and ${version} needs it.`)
    }
    return gone.length
  }

  #checkMark({ version }: MadeVersion, now: number): void {
    const marked = this.#notes.marks[version]
    if (marked === undefined || now - marked < DAY_MS)
      throw new Error(`${version} went, marked ${marked === undefined ? 'never' : 'less than a day ago'}.`)
  }

  #checkAlwaysStays({ version }: MadeVersion): void {
    const { pins } = this.#cell
    const holders = [...pins, this.#notes.proven, this.#before[0]?.version]
    for (const holder of holders) {
      const held = this.#before.find((each) => each.version === holder)
      if (held === undefined || !this.#cell.isClean(held)) continue
      if (held.version === version || held.chain.includes(version))
        throw new Error(`${version} went, and ${holder} (pinned, proven or newest) is it or needs it.`)
    }
    const proven = this.#before.find((each) => each.version === this.#notes.proven)
    if (proven === undefined || !this.#cell.isClean(proven)) return
    const base = this.#before.findIndex((each) => each.version === (proven.chain[0] ?? proven.version))
    if (this.#before.findIndex((each) => each.version === version) < base)
      throw new Error(`${version} went, and nothing as new is proven.`)
  }

  /** If the plan reaches the version, another one stands for each of its periods. */
  #checkPlan(gone: MadeVersion, left: readonly MadeVersion[], now: number, plan: string): void {
    if (!this.#cell.isClean(gone)) return
    for (const { every, forMs, text } of parsePlan(plan)) {
      if (now - gone.createdAt > forMs) continue
      if (every === 'all') throw new Error(`${gone.version} went, and ${text} keeps it.`)
      const period = periodOf(every, gone.createdAt)
      if (!left.some(({ createdAt }) => periodOf(every, createdAt) === period))
        throw new Error(`${gone.version} went, and nothing stands for its period of ${text}.`)
    }
  }

  /** @returns undefined for a note that is not there or damaged */
  #newest(kind: string) {
    const [key] = this.#bucket
      .keys(this.#cell.prefix)
      .filter((each) => each.includes(`/${kind}-`))
      .reverse()
    return key === undefined || this.#bucket.isDamaged(key)
      ? undefined
      : JSON.parse(this.#bucket.read(key).toString())
  }
}

function isTenants({ origin }: MadeVersion): boolean {
  return origin === 'tenant'
}
