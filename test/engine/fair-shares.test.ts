import { expect, test } from 'vitest'
import { FairShares } from '../../src/engine/commits/fair-shares.ts'
import { seededRandom } from '../support/seed.ts'

const MAX = 1_000

test('whatever cells take: while too much is taken some of them may make room, and none of an owner with at most an equal part', () => {
  const random = seededRandom()
  const shares = new FairShares(MAX)
  const cells = new Map<string, { owner: string; amount: number }>()
  for (let step = 0; step < 20_000; step++) {
    const id = `cell ${random.below(60)}`
    if (random.chance(0.2)) {
      shares.delete(id)
      cells.delete(id)
    } else {
      const cell = { owner: `owner ${random.below(6)}`, amount: random.below(80) }
      shares.set(id, cell.owner, cell.amount)
      cells.set(id, cell)
    }
    const all = [...cells.values()]
    const owners = new Set(all.map(({ owner }) => owner))
    const of = (owner: string) => all.reduce((sum, each) => sum + (each.owner === owner ? each.amount : 0), 0)
    expect(shares.isExceeded).toBe(all.reduce((sum, { amount }) => sum + amount, 0) > MAX)
    const mayGo = [...cells.keys()].filter((each) => shares.mayMakeRoom(each))
    if (shares.isExceeded) expect(mayGo).not.toEqual([])
    for (const each of mayGo) expect(of(cells.get(each)?.owner ?? '')).toBeGreaterThan(MAX / owners.size)
  }
})
