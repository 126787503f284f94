import { expect, test } from 'vitest'
import { Budget } from '../../src/base/fairness/budget.ts'
import { seededRandom } from '../support/seed.ts'
import { thrownBy } from '../support/thrown.ts'

const TOTAL = 10_000
const PER_ACCOUNT = 2_500
const SHARE = PER_ACCOUNT / TOTAL

const newBudget = (total = TOTAL, perAccount = PER_ACCOUNT) =>
  new Budget({
    settings: { total: 'total', perAccount: 'perAccount' },
    unit: 'bytes',
    total,
    perAccount,
    retryAfterMs: 1_000,
  })

/** @returns whether it was charged */
function tries(budget: Budget, account: string, amount: number): boolean {
  try {
    budget.take(account, amount)
    return true
  } catch {
    return false
  }
}

/** Takes as much as there is for the account. */
function fill(budget: Budget, account: string): void {
  const most = budget.shareOf(account) - budget.usedBy(account)
  if (most > 0) budget.take(account, most)
}

test('whatever accounts take and release: no account has more than its share, and together never more than the budget', () => {
  const random = seededRandom()
  const budget = newBudget()
  const model = new Map<string, number[]>()
  for (let step = 0; step < 20_000; step++) {
    const account = `account ${random.below(12)}`
    const uses = model.get(account) ?? []
    model.set(account, uses)
    if (uses.length > 0 && random.chance(0.4))
      budget.release(account, uses.splice(random.below(uses.length), 1)[0] as number)
    else {
      const amount = 1 + random.below(900)
      if (tries(budget, account, amount)) uses.push(amount)
    }
    const own = uses.reduce((sum, each) => sum + each, 0)
    expect(budget.usedBy(account)).toBe(own)
    expect(own).toBeLessThanOrEqual(PER_ACCOUNT)
    expect(budget.used).toBeLessThanOrEqual(TOTAL)
  }
  const all = [...model.values()].flat().reduce((sum, each) => sum + each, 0)
  expect(budget.used).toBe(all)
})

test('however much others take, in whatever order, a new account finds its share of what is left: (1 − share) of it for each of them', () => {
  const random = seededRandom()
  for (let accounts = 0; accounts <= 20; accounts++) {
    const budget = newBudget()
    for (let step = 0; step < 40 * accounts; step++)
      tries(budget, `account ${random.below(accounts)}`, 1 + random.below(400))
    for (let n = 0; n < accounts; n++) fill(budget, `account ${n}`)
    const left = Math.floor(TOTAL * (1 - SHARE) ** accounts) - accounts
    expect(TOTAL - budget.used).toBeGreaterThanOrEqual(left)
    expect(budget.shareOf('new')).toBeGreaterThanOrEqual(Math.floor(SHARE * left))
  }
})

test('accounts that always want more meet at the same amount, also with one that was there first', () => {
  const random = seededRandom()
  const budget = newBudget()
  const accounts = Array.from({ length: 8 }, (_, n) => `account ${n}`)
  for (const account of accounts) fill(budget, account)
  expect(budget.usedBy('account 0')).toBe(PER_ACCOUNT)
  for (let step = 0; step < 20_000; step++) {
    const account = random.pick(accounts)
    const ends = Math.min(budget.usedBy(account), 1 + random.below(50))
    budget.release(account, ends)
    fill(budget, account)
  }
  const uses = accounts.map((account) => budget.usedBy(account))
  // Each has a share of what the others leave: TOTAL / (1 / SHARE + 7).
  expect(Math.max(...uses) - Math.min(...uses)).toBeLessThanOrEqual(100)
  expect(Math.round(uses.reduce((sum, each) => sum + each, 0) / uses.length / 10)).toBe(91)
})

test('of a few units each account gets one while there is one; a refusal says whether the account or the others use them', () => {
  const budget = newBudget(8, 2)
  budget.take('first', 2)
  expect(thrownBy(() => budget.take('first', 1))).toMatchObject({
    code: 'rate_limited',
    details: { limit: 2 },
  })
  budget.take('second', 2)
  for (const account of ['third', 'fourth', 'fifth', 'sixth']) budget.take(account, 1)
  expect(thrownBy(() => budget.take('third', 1))).toMatchObject({ code: 'busy', details: { limit: 1 } })
  expect(thrownBy(() => budget.take('seventh', 1))).toMatchObject({ code: 'busy', details: { limit: 0 } })
})
