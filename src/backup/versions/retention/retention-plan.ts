import { CellError } from '../../../errors.ts'

/** One step of a plan: of each period, one version is kept for so long; with `all`, every version. */
export interface PlanStep {
  every: Period
  /** Milliseconds; infinite for `forever`. */
  forMs: number
  /** The step as it was written: `daily:30d`. */
  text: string
}

/** Which versions stay, by their age. Its steps go from the finest to the coarsest. */
export type RetentionPlan = readonly PlanStep[]

/** From the finest to the coarsest. */
const PERIODS = ['all', 'hourly', 'daily', 'weekly', 'monthly', 'yearly'] as const
type Period = (typeof PERIODS)[number]

const HOUR_MS = 3_600_000
const DAY_MS = 24 * HOUR_MS
/** Months and years count as their longest: what a plan names is kept at least for so long. */
const UNITS_MS: Readonly<Record<string, number>> = {
  h: HOUR_MS,
  d: DAY_MS,
  w: 7 * DAY_MS,
  mo: 31 * DAY_MS,
  y: 366 * DAY_MS,
}
const FOREVER = 'forever'
/** Nobody means a time of more digits. */
const STEP = /^([a-z]+):(?:(\d{1,5})(h|d|w|mo|y)|(forever))$/

/** A time that somebody else would write so. */
const SPELT_OUT = /^([1-9]\d{0,4}) ?(h|d|w|mo|y|hours?|days?|weeks?|months?|years?)$/i

/** What a store keeps of each cell, unless it is told otherwise. */
export const PLAN_DEFAULT = 'all:1d,hourly:3d,daily:30d,monthly:12mo'
/** What it keeps of the versions that tenants made, in addition. */
export const TENANT_PLAN_DEFAULT = 'all:1d,daily:30d'
/** A catalog has a version for each change, so that not even a day can keep them all. */
export const CATALOG_PLAN = 'hourly:3d,daily:30d,monthly:12mo'

/**
 * Reads a plan such as `all:1d,hourly:3d,daily:30d,monthly:12mo`.
 *
 * @throws `invalid_setting`
 */
export function parsePlan(text: string): RetentionPlan {
  if (typeof text !== 'string') throw badPlan(`it must be a text such as ${PLAN_DEFAULT}`)
  const steps = text.split(',').map((part) => parseStep(part.trim()))
  for (const [i, step] of steps.entries()) {
    const before = steps[i - 1]
    if (before === undefined) continue
    if (PERIODS.indexOf(step.every) <= PERIODS.indexOf(before.every)) {
      throw badPlan(
        `${step.text} cannot follow ${before.text}: write the steps from all to yearly, each once`,
      )
    }
    if (step.forMs <= before.forMs)
      throw badPlan(`${step.text} keeps nothing that ${before.text} does not keep`)
  }
  return steps
}

/** The longest time that a plan keeps a version for, in milliseconds. */
export function reachOf(plan: RetentionPlan): number {
  return Math.max(...plan.map(({ forMs }) => forMs))
}

/** The period that a time lies in, in UTC; each version is in a period of its own with `all`. */
export function periodOf(every: Exclude<Period, 'all'>, time: number): number {
  const date = new Date(time)
  switch (every) {
    case 'hourly':
      return Math.floor(time / HOUR_MS)
    case 'daily':
      return Math.floor(time / DAY_MS)
    case 'weekly':
      // The epoch was a Thursday, and weeks begin on Monday.
      return Math.floor((time / DAY_MS + 3) / 7)
    case 'monthly':
      return date.getUTCFullYear() * 12 + date.getUTCMonth()
    case 'yearly':
      return date.getUTCFullYear()
  }
}

function parseStep(text: string): PlanStep {
  const [, every = '', amount = '', unit = '', forever] = STEP.exec(text) ?? []
  const forMs = forever === FOREVER ? Number.POSITIVE_INFINITY : Number(amount) * (UNITS_MS[unit] ?? 0)
  if (isPeriod(every) && forMs > 0) return { every, forMs, text }
  throw badPlan(`${JSON.stringify(text.slice(0, 40))} is no step${mendOf(text)}`)
}

/** What a text that is no step most likely means: the unit of a time written out, or a time alone. */
function mendOf(text: string): string {
  if (STEP.test(`all:${text}`)) return `: write all:${text}`
  const [, every = '', time = ''] = /^([a-z]+): *(.*)$/.exec(text) ?? []
  const [, amount, word = ''] = SPELT_OUT.exec(time) ?? []
  if (!isPeriod(every) || amount === undefined) return ''
  const unit = Object.keys(UNITS_MS).find((each) => word.toLowerCase().startsWith(each))
  return `: ${JSON.stringify(time)} is no time, write ${amount}${unit}`
}

function isPeriod(text: string): text is Period {
  return (PERIODS as readonly string[]).includes(text)
}

function badPlan(why: string): CellError {
  return new CellError(
    'invalid_setting',
    `A plan names steps and how long each lasts, such as ${PLAN_DEFAULT}; steps are ${PERIODS.join(', ')}, times are like 12h, 3d, 2w, 12mo, 5y or ${FOREVER}. Here ${why}.`,
  )
}
