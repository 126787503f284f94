import { setImmediate as turnOfTheLoop } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { Turns } from '../../src/base/fairness/turns.ts'
import { seededRandom } from '../support/seed.ts'

test('an account that comes last waits for one piece of work of each other account, however many they have waiting', async () => {
  const turns = new Turns()
  const done: string[] = []
  const work = async (account: string) => {
    await turns.next(account)
    done.push(account)
  }
  const others = Array.from({ length: 20 }, (_, i) => `account ${i}`)
  const all = others.flatMap((account) => Array.from({ length: 100 }, () => work(account)))
  await Promise.all([...all.slice(0, 1), work('neighbour')])
  expect(done.indexOf('neighbour')).toBeLessThanOrEqual(others.length)
  await Promise.all(all)
  expect(done).toHaveLength(2_001)
})

test('whatever accounts ask for, and when: between two turns of one, each other that waits has one', async () => {
  const random = seededRandom()
  const turns = new Turns()
  const waiting = new Map<string, number>()
  /** By account, those that have had a turn since it began to wait for its own. */
  const passedBy = new Map<string, string[]>()
  const all: Promise<void>[] = []
  const work = async (account: string) => {
    const before = waiting.get(account) ?? 0
    waiting.set(account, before + 1)
    if (before === 0) passedBy.set(account, [])
    await turns.next(account)
    waiting.set(account, (waiting.get(account) ?? 0) - 1)
    const passed = passedBy.get(account) ?? []
    expect(new Set(passed).size).toBe(passed.length)
    passedBy.set(account, [])
    for (const [other, count] of waiting)
      if (other !== account && count > 0) passedBy.get(other)?.push(account)
  }
  for (let i = 0; i < 2_000; i++) {
    all.push(work(`account ${random.below(8)}`))
    if (random.below(3) === 0) await turnOfTheLoop()
  }
  await Promise.all(all)
})

test('the loop does everything else between two pieces of work', async () => {
  const turns = new Turns()
  const done: string[] = []
  const work = async () => {
    await turns.next('busy')
    done.push('work')
  }
  const all = Array.from({ length: 5 }, work)
  for (let i = 0; i < 5; i++) {
    await turnOfTheLoop()
    done.push('else')
  }
  await Promise.all(all)
  for (const [i, what] of done.entries()) if (i > 0) expect(what).not.toBe(done[i - 1])
})

test('few small pieces of an account pass in one turn of the loop, and a neighbour’s one passes at once however many wait', async () => {
  const turns = new Turns()
  const begun: number[] = []
  let loops = 0
  const all = Array.from({ length: 1_000 }, async () => {
    const turn = turns.nextSmall('busy', 3_000)
    if (turn !== undefined) await turn
    begun[loops] = (begun[loops] ?? 0) + 1
  })
  while (begun.reduce((sum, count) => sum + count, 0) < all.length) {
    expect(turns.nextSmall(`neighbour ${loops}`, 3_000)).toBeUndefined()
    await turnOfTheLoop()
    loops++
  }
  await Promise.all(all)
  // The first ones pass at once, and so do the first that wait, still before the next turn of the loop.
  expect(Math.max(...begun)).toBeLessThanOrEqual(16)
  expect(loops).toBeLessThanOrEqual(2 * (all.length / 8))
})

test('an account’s large pieces begin in the order in which they came, and so do its small ones', async () => {
  const random = seededRandom()
  const turns = new Turns()
  const begun = { small: [] as number[], large: [] as number[] }
  const all: Promise<void>[] = []
  for (let i = 0; i < 500; i++) {
    const kind = random.below(2) === 0 ? 'small' : 'large'
    const turn = kind === 'small' ? turns.nextSmall('account', 3_000) : turns.next('account')
    all.push((turn ?? Promise.resolve()).then(() => void begun[kind].push(i)))
    if (random.below(20) === 0) await turnOfTheLoop()
  }
  await Promise.all(all)
  for (const order of Object.values(begun)) expect(order).toEqual([...order].sort((a, b) => a - b))
})

test('an account’s small pieces pass its own large ones, which have every second turn meanwhile', async () => {
  const turns = new Turns()
  let large = 0
  for (let i = 0; i < 100; i++) void turns.next('account').then(() => void large++)
  // A few pass at once, and all others wait for no more large ones than they make turns.
  const small = Array.from({ length: 100 }, () => turns.nextSmall('account', 3_000))
  expect(small.findIndex((turn) => turn !== undefined)).toBe(8)
  await Promise.all(small)
  expect(large).toBeGreaterThanOrEqual(Math.floor((100 - 8) / 8))
  expect(large).toBeLessThanOrEqual(Math.ceil((100 - 8) / 8) + 1)
})
