import { describe, expect, test } from 'vitest'
import {
  CATALOG_PLAN,
  PLAN_DEFAULT,
  parsePlan,
  periodOf,
  reachOf,
  TENANT_PLAN_DEFAULT,
} from '../../../src/backup/versions/retention/retention-plan.ts'
import { thrownBy } from '../../support/thrown.ts'

const DAY_MS = 86_400_000

describe('A plan', () => {
  test('names its steps, and how long each one lasts', () => {
    expect(parsePlan('all:12h,hourly:3d, weekly:2w,monthly:12mo,yearly:forever')).toEqual([
      { every: 'all', forMs: DAY_MS / 2, text: 'all:12h' },
      { every: 'hourly', forMs: 3 * DAY_MS, text: 'hourly:3d' },
      { every: 'weekly', forMs: 14 * DAY_MS, text: 'weekly:2w' },
      { every: 'monthly', forMs: 372 * DAY_MS, text: 'monthly:12mo' },
      { every: 'yearly', forMs: Number.POSITIVE_INFINITY, text: 'yearly:forever' },
    ])
    expect(reachOf(parsePlan('daily:3d'))).toBe(3 * DAY_MS)
  })

  test.each([PLAN_DEFAULT, TENANT_PLAN_DEFAULT, CATALOG_PLAN, 'all:forever'])('%s is one', (text) => {
    expect(parsePlan(text).length).toBeGreaterThan(0)
  })

  test.each([
    ['', '"" is no step'],
    ['30', '"30" is no step'],
    ['daily', '"daily" is no step'],
    ['daily:3', '"daily:3" is no step'],
    ['daily:0d', '"daily:0d" is no step'],
    ['daily:3m', '"daily:3m" is no step'],
    ['daily:-1d', '"daily:-1d" is no step'],
    ['minutely:1d', '"minutely:1d" is no step'],
    ['constructor:1d', '"constructor:1d" is no step'],
    ['all:1d,', '"" is no step'],
    ['daily:3d,hourly:1d', 'hourly:1d cannot follow daily:3d'],
    ['daily:3d,daily:5d', 'daily:5d cannot follow daily:3d'],
    ['hourly:3d,daily:3d', 'daily:3d keeps nothing that hourly:3d does not keep'],
    ['all:forever,daily:30d', 'daily:30d keeps nothing that all:forever does not keep'],
    ['daily:999999d', 'is no step.'],
    ['all:7days', '"all:7days" is no step: "7days" is no time, write 7d.'],
    ['all:1 Month', '"1 Month" is no time, write 1mo.'],
    ['7d', '"7d" is no step: write all:7d.'],
    ['forever', '"forever" is no step: write all:forever.'],
  ])('%j is none, and the error says why and shows one', (text, why) => {
    const error = thrownBy(() => parsePlan(text))
    expect(error).toMatchObject({ code: 'invalid_setting' })
    expect(error.message).toContain(why)
    expect(error.message).toContain(PLAN_DEFAULT)
  })

  test('has periods of UTC: weeks from Monday, months and years of the calendar', () => {
    const at = (iso: string) => Date.parse(iso)
    const same = (every: Parameters<typeof periodOf>[0], a: string, b: string) =>
      periodOf(every, at(a)) === periodOf(every, at(b))
    expect(same('hourly', '2026-11-22T10:00:00Z', '2026-11-22T10:59:59.999Z')).toBe(true)
    expect(same('hourly', '2026-11-22T10:00:00Z', '2026-11-22T11:00:00Z')).toBe(false)
    expect(same('daily', '2026-11-22T00:00:00Z', '2026-11-22T23:59:59.999Z')).toBe(true)
    // A Monday and its Sunday; the Sunday before.
    expect(same('weekly', '2026-11-16T00:00:00Z', '2026-11-22T23:59:59.999Z')).toBe(true)
    expect(same('weekly', '2026-11-15T23:59:59.999Z', '2026-11-16T00:00:00Z')).toBe(false)
    expect(same('monthly', '2026-02-01T00:00:00Z', '2026-02-28T23:59:59.999Z')).toBe(true)
    expect(same('monthly', '2026-02-01T00:00:00Z', '2027-02-01T00:00:00Z')).toBe(false)
    expect(same('yearly', '2026-01-01T00:00:00Z', '2026-12-31T23:59:59.999Z')).toBe(true)
  })
})
