import { describe, expect, test } from 'vitest'
import type { BackupOrigin } from '../../../src/backup/versions/backup-types.ts'
import {
  PLAN_DEFAULT,
  parsePlan,
  periodOf,
  TENANT_PLAN_DEFAULT,
} from '../../../src/backup/versions/retention/retention-plan.ts'
import {
  judgeVersions,
  type RetentionCase,
  type VersionFacts,
} from '../../../src/backup/versions/retention/retention-verdicts.ts'
import type { Random } from '../../support/random.ts'
import { seededRandom } from '../../support/seed.ts'

const MINUTE_MS = 60_000
const HOUR_MS = 60 * MINUTE_MS
const DAY_MS = 24 * HOUR_MS
const START = Date.UTC(2026, 0, 1)
const ORIGINS: readonly BackupOrigin[] = ['schedule', 'schedule', 'schedule', 'owner', 'tenant']
const PLANS = [PLAN_DEFAULT, 'all:1h', 'hourly:2d,daily:9d', 'all:6h,weekly:5w,yearly:3y', 'daily:forever']

function facts(
  n: number,
  at: number,
  chain: string[] | undefined = [],
  origin: BackupOrigin = 'schedule',
  history: string | null = null,
): VersionFacts {
  return { version: `v${String(n).padStart(6, '0')}`, createdAt: at, at, history, origin, chain }
}

function caseOf(versions: VersionFacts[], given: Partial<RetentionCase> = {}): RetentionCase {
  return {
    versions,
    plan: parsePlan(PLAN_DEFAULT),
    tenantPlan: parsePlan(TENANT_PLAN_DEFAULT),
    pins: new Set(),
    current: new Set(),
    proven: undefined,
    now: START,
    horizon: START - 7 * DAY_MS,
    ...given,
  }
}

function keptBy(given: RetentionCase): VersionFacts[] {
  const verdicts = judgeVersions(given)
  return given.versions.filter((_, i) => verdicts[i]?.keep !== undefined)
}

/** A cell's backups over some time, each continuing the newest version or a base. */
class History {
  now = START
  /** Newest first. */
  versions: VersionFacts[] = []
  #n = 0
  readonly #random: Random
  /** Null: the cell is not shipped. It may begin to be, and each history may break off. */
  #history: string | null = null

  constructor(random: Random) {
    this.#random = random
  }

  pass(): void {
    const random = this.#random
    this.now += random.pick([1, 15 * MINUTE_MS, HOUR_MS, 7 * HOUR_MS, DAY_MS, 9 * DAY_MS, 40 * DAY_MS])
  }

  backUp(bases = 0.3, origins = ORIGINS): void {
    const random = this.#random
    const newest = this.versions[0]
    // The stamp grows even if the clock has stepped back.
    const at = Math.max(this.now, (newest?.createdAt ?? 0) + 1)
    const continues = newest?.chain !== undefined && newest.chain.length < 63 && !random.chance(bases)
    const chain = continues ? [...(newest.chain as string[]), newest.version] : []
    if (random.chance(0.1)) this.#history = random.chance(0.2) ? null : `history ${this.#n}`
    this.versions = [facts(this.#n++, at, chain, random.pick(origins), this.#history), ...this.versions]
  }

  keepOnly(kept: readonly VersionFacts[]): void {
    const left = new Set(kept)
    this.versions = this.versions.filter((each) => left.has(each))
  }
}

/** Histories in which clocks step, versions are damaged, pinned and proven. */
function* histories(count: number): Generator<RetentionCase> {
  const random = seededRandom()
  for (let i = 0; i < count; i++) {
    const history = new History(random)
    for (let step = random.below(80); step >= 0; step--) {
      if (random.chance(0.6)) history.pass()
      if (random.chance(0.05)) history.now += random.pick([-400 * DAY_MS, -DAY_MS, DAY_MS, 400 * DAY_MS])
      if (random.chance(0.9)) history.backUp()
    }
    const some = (chance: number) =>
      history.versions.filter(() => random.chance(chance)).map(({ version }) => version)
    const damaged = new Set(random.chance(0.3) ? some(0.1) : [])
    const isWhole = ({ version, chain }: VersionFacts) =>
      !damaged.has(version) && (chain ?? []).every((link) => !damaged.has(link))
    const versions = history.versions.map((each) => (isWhole(each) ? each : { ...each, chain: undefined }))
    const newest = versions[0]
    yield caseOf(versions, {
      plan: parsePlan(random.pick(PLANS)),
      tenantPlan: parsePlan(random.pick(PLANS)),
      pins: new Set(random.chance(0.3) ? some(0.1) : []),
      current: new Set(newest?.chain === undefined ? [] : [...newest.chain, newest.version]),
      proven: random.chance(0.5) && versions.length > 0 ? random.pick(versions).version : undefined,
      now: history.now,
      horizon: history.now - random.pick([HOUR_MS, DAY_MS, 7 * DAY_MS, 60 * DAY_MS]),
    })
  }
}

describe('What stays of any history', () => {
  test('holds every version below a version that stays, all pins, the current chain and the last proven version', () => {
    for (const given of histories(1_000)) {
      const kept = new Map(keptBy(given).map((each) => [each.version, each]))
      for (const { chain = [] } of kept.values()) for (const link of chain) expect(kept.has(link)).toBe(true)
      for (const { version, chain } of given.versions) {
        const must = given.pins.has(version) || given.current.has(version)
        if (must || (version === given.proven && chain !== undefined)) expect(kept.has(version)).toBe(true)
      }
      const newest = given.versions.find(({ chain }) => chain !== undefined)
      if (newest !== undefined) expect(kept.has(newest.version)).toBe(true)
    }
  })

  test('has a way to each moment of the history: a version of the same logs from before it, and one that shows the last moment', () => {
    let moments = 0
    for (const given of histories(1_000)) {
      const { horizon } = given
      const shipped = (each: VersionFacts) => each.chain !== undefined && each.history !== null
      const all = given.versions.filter(shipped)
      const kept = keptBy(given).filter(shipped)
      for (const moment of [horizon, ...all.map(({ at }) => at).filter((at) => at > horizon)]) {
        const wayIn = (some: VersionFacts[]) => some.find(({ at }) => at <= moment)?.history
        const isShown = (some: VersionFacts[]) =>
          some.some(({ at, history }) => at >= moment && history === wayIn(some))
        expect(wayIn(kept)).toBe(wayIn(all))
        expect(isShown(kept)).toBe(isShown(all))
        moments++
      }
    }
    expect(moments).toBeGreaterThan(1_000)
  })

  test('stays in a second run: it removes nothing more', () => {
    for (const given of histories(1_000)) {
      const kept = keptBy(given)
      expect(keptBy({ ...given, versions: kept })).toEqual(kept)
    }
  })

  test('has no gap at any moment of the removal, which goes from the newest to the oldest', () => {
    for (const given of histories(300)) {
      const going = new Set(given.versions)
      for (const each of keptBy(given)) going.delete(each)
      let left = given.versions
      for (const gone of going) {
        left = left.filter((each) => each !== gone)
        const stored = new Set(left.map(({ version }) => version))
        for (const { chain = [] } of left) for (const link of chain) expect(stored.has(link)).toBe(true)
      }
    }
  })

  test('is what a plan promises, however often it was pruned before', () => {
    const random = seededRandom()
    for (let i = 0; i < 300; i++) {
      const plan = parsePlan(random.pick(PLANS))
      const history = new History(random)
      const all: VersionFacts[] = []
      for (let step = 0; step < 60; step++) {
        if (random.chance(0.7)) history.pass()
        const before = history.versions[0]
        if (random.chance(0.9)) history.backUp()
        if (history.versions[0] !== undefined && history.versions[0] !== before)
          all.unshift(history.versions[0])
        const given = caseOf(history.versions, { plan, now: history.now })
        if (random.chance(0.6)) history.keepOnly(keptBy(given))
        expectPlan(plan, all, history)
      }
    }
  })

  test('does not depend on what tenants make: nothing of others goes because of it', () => {
    const random = seededRandom()
    for (let i = 0; i < 500; i++) {
      const history = new History(random)
      for (let step = 0; step < 60; step++) {
        if (random.chance(0.6)) history.pass()
        history.backUp(1)
      }
      const plan = parsePlan(random.pick(PLANS))
      const given = caseOf(history.versions, { plan, now: history.now })
      const others = history.versions.filter(({ origin }) => origin !== 'tenant')
      const kept = new Set(keptBy(given))
      for (const each of keptBy({ ...given, versions: others })) expect(kept.has(each)).toBe(true)
    }
  })
})

/** The naive reading of a plan, over all versions that were ever made. */
function expectPlan(
  plan: ReturnType<typeof parsePlan>,
  all: readonly VersionFacts[],
  history: History,
): void {
  const stored = new Set(history.versions)
  for (const { every, forMs } of plan) {
    const periods = new Map<number | string, VersionFacts[]>()
    for (const each of all) {
      if (every === 'all' && each.origin === 'tenant') continue
      const period = every === 'all' ? each.version : periodOf(every, each.createdAt)
      periods.set(period, [...(periods.get(period) ?? []), each])
    }
    for (const versions of periods.values()) {
      // The newest of the period may be younger than the one that stands for it.
      const isOver = versions.some(({ createdAt }) => history.now - createdAt > forMs)
      if (!isOver) expect(versions.some((each) => stored.has(each))).toBe(true)
    }
  }
}

describe('A cell of a year', () => {
  /** A snapshot a day, an incremental every hour. */
  function year(given: Partial<RetentionCase> = {}): RetentionCase {
    const versions: VersionFacts[] = []
    for (let hour = 0, base = 0; hour < 366 * 24; hour++) {
      if (hour % 24 === 0) base = hour
      const chain = Array.from({ length: hour - base }, (_, i) => facts(base + i, 0).version)
      versions.unshift(facts(hour, START + hour * HOUR_MS, chain))
    }
    return caseOf(versions, { now: START + 366 * DAY_MS, ...given })
  }

  test('has all of the last day, the hours of three days, 30 days, 12 months', () => {
    const kept = keptBy(year())
    const within = (days: number) =>
      kept.filter(({ createdAt }) => createdAt >= START + (366 - days) * DAY_MS)
    expect(within(3)).toHaveLength(72)
    // Of each day before, the snapshot: an incremental would need its whole chain.
    expect(within(30)).toHaveLength(72 + 27)
    expect(kept.length).toBeGreaterThanOrEqual(72 + 27 + 11)
    expect(kept.length).toBeLessThanOrEqual(72 + 27 + 13)
  })

  test('keeps what is pinned and what it needs, and says why each one stays', () => {
    const given = year()
    const pinned = given.versions.find(({ createdAt }) => createdAt === START + 5 * DAY_MS + 2 * HOUR_MS)
    const verdicts = judgeVersions({ ...given, pins: new Set([pinned?.version as string]) })
    const of = (version: string | undefined) => verdicts.find((each) => each.version === version)
    expect(of(pinned?.version)).toMatchObject({ keep: 'pinned' })
    expect(of(pinned?.chain?.[0])).toMatchObject({ keep: 'needed' })
    expect(of(pinned?.chain?.[1])).toMatchObject({ keep: 'needed' })
    expect(verdicts[0]).toMatchObject({ keep: 'current' })
    expect(verdicts[30]).toMatchObject({ keep: 'plan', step: 'hourly:3d' })
    expect(verdicts.at(-1)).toMatchObject({ keep: undefined })
  })

  test('that was proven loses only what is older than the base of the proven version', () => {
    const given = year()
    const proven = given.versions.find(({ createdAt }) => createdAt === START + 200 * DAY_MS + 2 * HOUR_MS)
    const verdicts = judgeVersions({ ...given, proven: proven?.version as string })
    const after = given.versions.findIndex(({ version }) => version === proven?.chain?.[0])
    expect(verdicts.slice(0, after + 1).every(({ keep }) => keep !== undefined)).toBe(true)
    expect(verdicts.slice(after + 1).some(({ keep }) => keep === undefined)).toBe(true)
  })

  test('that was never proven keeps two bases, whatever the plan', () => {
    const plan = parsePlan('all:1h')
    const given = year({ plan, now: START + 2_000 * DAY_MS })
    const bases = keptBy(given).filter(({ chain }) => chain?.length === 0)
    expect(bases).toHaveLength(2)
  })

  test('keeps damaged versions as long as the plan reaches, and lets none of them take a place', () => {
    const damaged = facts(2, START + 10 * HOUR_MS, undefined)
    const good = facts(1, START + 9 * HOUR_MS)
    const newest = facts(3, START + 20 * DAY_MS)
    const spare = facts(4, START + 19 * DAY_MS)
    const given = caseOf([newest, spare, { ...damaged, chain: undefined }, good], {
      plan: parsePlan('daily:30d'),
      now: START + 20 * DAY_MS,
    })
    expect(judgeVersions(given).map(({ keep }) => keep)).toEqual(['current', 'plan', 'damaged', 'plan'])
    const later = judgeVersions({ ...given, now: START + 50 * DAY_MS })
    expect(later.map(({ keep }) => keep)).toEqual(['current', 'spare', undefined, undefined])
  })

  test("fills a period with a tenant's version only if it has no other", () => {
    const at = (day: number, hour: number) => START + day * DAY_MS + hour * HOUR_MS
    const versions = [
      facts(9, at(40, 0)),
      facts(8, at(39, 0)),
      facts(4, at(11, 5), [], 'tenant'),
      facts(3, at(10, 9), [], 'tenant'),
      facts(2, at(10, 5)),
      facts(1, at(10, 2), [], 'tenant'),
    ]
    const kept = keptBy(caseOf(versions, { tenantPlan: parsePlan('all:1h'), now: at(40, 0) }))
    expect(kept.map(({ version }) => version)).toEqual(['v000009', 'v000008', 'v000004', 'v000002'])
  })
})
