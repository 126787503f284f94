import type { BackupOrigin } from '../backup-types.ts'
import { periodOf, type RetentionPlan, reachOf } from './retention-plan.ts'

/** What decides over a version. */
export interface VersionFacts {
  version: string
  /** Epoch milliseconds. */
  createdAt: number
  /** The same on the cell's own line of time: later moments can't be restored from an older version alone. */
  at: number
  /** The unbroken row of logs that the version is in; null if nothing that is shipped follows it. */
  history: string | null
  origin: BackupOrigin
  /** The versions below it, its base first; undefined if the version cannot be restored. */
  chain: readonly string[] | undefined
  /** Of a version that cannot be restored: the versions below it as far as they are known. The look can be wrong. */
  links?: readonly string[] | undefined
}

export interface RetentionCase {
  /** Newest first, in the order of their stamps. The clock may have stepped: times need not follow that order. */
  versions: readonly VersionFacts[]
  plan: RetentionPlan
  /** For versions that tenants made. */
  tenantPlan: RetentionPlan
  pins: ReadonlySet<string>
  /** The chain that this machine's next incremental continues. */
  current: ReadonlySet<string>
  /** The version that was proven last; undefined if none was. */
  proven: string | undefined
  /** Epoch milliseconds. */
  now: number
  /** Epoch milliseconds: later moments stay restorable, as far as the log objects reach. */
  horizon: number
}

/** Why a version stays; a plan's step, as it is written, is a reason too. */
export type KeepReason =
  | 'pinned'
  | 'current'
  | 'proven'
  | 'unproven'
  | 'spare'
  | 'history'
  | 'damaged'
  | 'needed'
  | 'plan'

export interface Verdict {
  version: string
  /** Undefined: the version is to go. */
  keep: KeepReason | undefined
  /** The step of the plan that keeps it. */
  step?: string | undefined
}

/** Bases that stay where no version was ever proven: if one is damaged, there is another. */
const BASES_UNPROVEN = 2
const AHEAD_MS_MAX = 86_400_000

/**
 * Decides which versions of a cell stay. A pure function. What it keeps does not depend on what it removes: a second run
 * removes nothing more.
 *
 * @returns in the order of `versions`
 */
export function judgeVersions(given: RetentionCase): Verdict[] {
  const { versions, pins } = given
  const kept = new Map<string, Verdict>()
  const keep = (version: string, reason: KeepReason, step?: string) => {
    if (!kept.has(version))
      kept.set(version, { version, keep: reason, ...(step === undefined ? {} : { step }) })
  }
  for (const { version } of versions) if (pins.has(version)) keep(version, 'pinned')
  for (const version of currentChain(given)) keep(version, 'current')
  keepByPlans(given, (version, step) => keep(version, 'plan', step))
  keepProof(given, keep)
  keepHistory(given, (version) => keep(version, 'history'))
  keepDamaged(given, (version) => keep(version, 'damaged'))
  for (const each of versions) {
    if (kept.has(each.version)) for (const link of linksOf(each)) keep(link, 'needed')
  }
  return versions.map(({ version }) => kept.get(version) ?? { version, keep: undefined })
}

/** What goes only together with a version, or after it. */
export function linksOf({ chain, links = [] }: VersionFacts): readonly string[] {
  return chain ?? links
}

/** What the next incremental continues, and what a restore of the newest state needs. */
function* currentChain({ versions, current }: RetentionCase): Generator<string> {
  yield* current
  const newest = versions.find(({ chain }) => chain !== undefined)
  if (newest === undefined) return
  yield newest.version
  yield* newest.chain ?? []
}

/**
 * The store's plan covers all versions. A tenant's version takes a place in it only where no other one does: so a tenant can
 * neither displace versions nor, by backups that make scheduled ones needless, leave a gap.
 */
function keepByPlans(given: RetentionCase, keep: (version: string, step: string) => void): void {
  const { versions, plan, tenantPlan, now } = given
  const good = versions.filter(({ chain }) => chain !== undefined)
  const tenants = good.filter(({ origin }) => origin === 'tenant')
  const others = good.filter(({ origin }) => origin !== 'tenant')
  keepSteps(plan, others, good, now, keep)
  keepSteps(tenantPlan, tenants, tenants, now, keep)
}

/**
 * @param all where the plan keeps every version
 * @param candidates where it keeps one of each period
 */
function keepSteps(
  plan: RetentionPlan,
  all: readonly VersionFacts[],
  candidates: readonly VersionFacts[],
  now: number,
  keep: (version: string, step: string) => void,
): void {
  for (const { every, forMs, text } of plan) {
    const chosen = every === 'all' ? all : bestOf(candidates, (time) => periodOf(every, time))
    for (const { version, createdAt } of chosen) if (now - createdAt <= forMs) keep(version, text)
  }
}

/**
 * The best version of each period. The choice does not depend on the time of the decision, and the best of a day is also
 * the best of its hour: what a later run wants to keep was not removed by an earlier one.
 */
function bestOf(versions: readonly VersionFacts[], periodAt: (time: number) => number): VersionFacts[] {
  const best = new Map<number, VersionFacts>()
  for (const each of versions) {
    const period = periodAt(each.createdAt)
    const other = best.get(period)
    if (other === undefined || rankOf(each) > rankOf(other)) best.set(period, each)
  }
  return [...best.values()]
}

/** A tenant's version last; a base before an incremental, which keeps its whole chain; of equals the newest, seen first. */
function rankOf({ origin, chain }: VersionFacts): number {
  return (origin === 'tenant' ? 0 : 2) + (chain?.length === 0 ? 1 : 0)
}

/** Only what lies below a proven base may go. Without any proof, spare bases stay. */
function keepProof(given: RetentionCase, keep: (version: string, reason: KeepReason) => void): void {
  const { versions, proven } = given
  const found = versions.find(({ version }) => version === proven)
  if (found?.chain === undefined) {
    const bases = versions.filter(({ chain }) => chain?.length === 0)
    const isTenants = ({ origin }: VersionFacts) => origin === 'tenant'
    const others = bases.filter((each) => !isTenants(each))
    const spare = [...others, ...bases.filter(isTenants)].slice(0, BASES_UNPROVEN)
    for (const { version } of spare) keep(version, 'spare')
    return
  }
  const base = found.chain[0] ?? found.version
  for (const version of [found.version, ...found.chain]) keep(version, 'proven')
  for (const { version } of versions) {
    if (version === base) return
    keep(version, 'unproven')
  }
}

/**
 * A moment is restored from the newest version before it, and from what was shipped after that. So the newest one from before
 * the horizon stays, or else the oldest. Where the logs break off, nothing leads from one history to the next: its last version
 * stays, and the first of the next one. Tenants' versions displace no others.
 */
function keepHistory({ versions, horizon }: RetentionCase, keep: (version: string) => void): void {
  const shipped = versions.filter(({ chain, history }) => chain !== undefined && history !== null)
  for (const some of [shipped, shipped.filter(({ origin }) => origin !== 'tenant')]) {
    const before = some.findIndex((each) => isFromBefore(each, horizon))
    const needed = before === -1 ? some : some.slice(0, before + 1)
    for (const [i, { version, history }] of needed.entries()) {
      // Also undefined: the first and the last of them.
      const isInside = needed[i - 1]?.history === history && needed[i + 1]?.history === history
      if (!isInside) keep(version)
    }
  }
}

/** Log retention has the same one: `VersionCover`. */
export function isFromBefore(
  { createdAt, at }: Pick<VersionFacts, 'createdAt' | 'at'>,
  horizon: number,
): boolean {
  return atMostAhead(at, createdAt) <= horizon
}

/** A time on a cell's own line, which may be ahead of the clock: further ahead than this, it says nothing of an age. */
export function atMostAhead(time: number, createdAt: number): number {
  return Math.min(time, createdAt + AHEAD_MS_MAX)
}

/** A look can be wrong, and another program may still read something: what is damaged stays as long as the plan reaches. */
function keepDamaged({ versions, plan, now }: RetentionCase, keep: (version: string) => void): void {
  const reach = reachOf(plan)
  for (const { version, createdAt, chain } of versions) {
    if (chain === undefined && now - createdAt <= reach) keep(version)
  }
}
