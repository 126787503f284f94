import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { countOf } from '../../support/counts.ts'
import { SEED } from '../../support/seed.ts'
import { explore, walk } from './explorer.ts'
import { INVARIANTS, type Invariant } from './invariants.ts'
import { Protocol, RULES, type Rule } from './rules.ts'
import { EVERYTHING, SCENARIOS, type Scenario } from './scenarios.ts'
import { firstWorld } from './world.ts'

/** Without the rule: where an invariant breaks, which one, and after how many steps at least. */
const COUNTEREXAMPLES: Record<Rule, [keyof typeof SCENARIOS, Invariant, number]> = {
  'lease after the work': ['an owner that stops', 'owner', 12],
  'lease from the start': ['an owner that stops', 'owner', 13],
  'monotonic clock': ['clocks that stand or jump', 'owner', 11],
  'wall clock': ['clocks that stand or jump', 'owner', 11],
  'boot clock': ['clocks that stand or jump', 'owner', 11],
  'beats name the living': ['an owner that stops', 'owner', 13],
  'look after an incarnation': ['a take-over is forgotten', 'owner', 14],
  'look begins after it': ['a take-over is forgotten', 'owner', 18],

  'look after the PUT': ['an owner that stops', 'durable', 6],
  'look begins after the PUT': ['requests that take long', 'durable', 15],
  'reads show what counts': ['an owner that stops', 'durable', 1],

  'watch for TTL': ['an owner that stops', 'owner', 9],
  'watch from the answer': ['requests that take long', 'owner', 15],
  'known to be dead': ['an owner that stops', 'owner', 8],
  'watch one incarnation': ['a take-over is forgotten', 'owner', 14],
  'compare the counter': ['an owner that stops', 'owner', 13],
  'declare dead': ['an owner that stops', 'owner', 9],
  'own fence': ['an owner that stops', 'owner', 13],
  'confirm after the fence': ['a take-over is forgotten', 'owner', 17],
  'wait for L': ['an owner that stops', 'owner', 12],
  'wait from the answer': ['requests that take long', 'owner', 15],
  'wait by the monotonic clock': ['clocks that stand or jump', 'owner', 10],
  'read after the fence': ['an owner that stops', 'durable', 14],
  'each tenure has an end': ['an owner that stops', 'durable', 17],
  'versions have an end': ['a log of two ranges', 'durable', 16],
  'each tenure has a beginning': ['a range that comes back', 'history', 12],
  'no range to the ended': ['a range for one that was taken over', 'durable', 20],
  'data of one tenure': ['a range that comes back', 'history', 12],
  'assign is create-only': ['two that take over', 'owner', 16],
  'derive again': ['two that take over', 'owner', 17],

  'a moving range stops': ['a planned move', 'owner', 4],
  'wait for own PUTs': ['a planned move', 'durable', 7],
  'a move is taken back': ['a planned move', 'owner', 5],
  'a start takes a number': ['a move, and a restart', 'owner', 5],

  'remove what is covered': ['a log of two ranges', 'durable', 8],
  'covers count': ['versions of an owner that stops', 'durable', 18],
  'all ranges are covered': ['a log of two ranges', 'durable', 19],

  'catalog goes forward': ['a revocation is forgotten', 'catalog', 4],
  'one history': ['a change is forgotten, and who made it was dead', 'agreement', 14],
  'only a reconciled head': ['a revocation is forgotten', 'agreement', 4],
  'hand in first': ['a revocation is forgotten', 'agreement', 5],
  'hand in for this incarnation': ['changes are forgotten twice', 'agreement', 10],
  'all fences are known': ['a join is forgotten', 'revocation', 14],
  'bucket hands in': ['a revocation is forgotten, and all nodes die', 'revocation', 16],
  'row before catch-up': ['a join is forgotten', 'revocation', 10],
  'join a reconciled head': ['a join is forgotten', 'revocation', 12],

  'wait for the living': ['a revocation is forgotten', 'revocation', 4],
  'head has the change': ['a join is forgotten', 'revocation', 12],
  'wait for the dying': ['a revocation while one is silent', 'revocation', 10],
  'silent ones are fenced': ['a revocation while one is silent', 'revocation', 11],
  'revocation in the bucket': ['a revocation is forgotten, and all nodes die', 'revocation', 15],
}

function exploreWithout(rule: Rule | null, { cluster, left, delays = false }: Scenario, worldsMax?: number) {
  return explore(firstWorld(cluster, left), new Protocol(rule, delays), worldsMax)
}

describe('docs/decisions/0037: the protocol of many nodes', () => {
  describe('with all rules, no invariant breaks in any world of', () => {
    test.each(Object.entries(SCENARIOS))('%s', (_, scenario) => {
      const { broken, isComplete } = exploreWithout(null, scenario)
      expect(broken).toBeUndefined()
      expect(isComplete).toBe(true)
    })
  })

  describe('without one rule, an invariant breaks', () => {
    test.each(Object.entries(COUNTEREXAMPLES) as [Rule, (typeof COUNTEREXAMPLES)[Rule]][])(
      'without "%s": %s',
      (rule, [scenario, invariant, length]) => {
        const { broken } = exploreWithout(rule, SCENARIOS[scenario])
        const found = broken && [broken.invariant, broken.steps.length]
        expect(found, `${RULES[rule]} ${INVARIANTS[invariant]}\n${broken?.steps.join('\n')}`).toEqual([
          invariant,
          length,
        ])
      },
    )
  })

  const worldsMax = countOf('CELLSTORE_CLUSTER_WORLDS')
  test(`nor does one in the first ${worldsMax} worlds with three nodes, a fourth that joins, and all faults`, () => {
    expect(exploreWithout(null, EVERYTHING, worldsMax).broken).toBeUndefined()
  })

  const walks = countOf('CELLSTORE_CLUSTER_WALKS')
  test(`nor in ${walks} random walks there`, () => {
    const { cluster, left } = EVERYTHING
    fc.assert(
      fc.property(fc.array(fc.nat(999_999), { minLength: 150, maxLength: 300 }), (choices) => {
        const first = firstWorld(cluster, left)
        let at = 0
        const choose = (bound: number) => (choices[at++] as number) % bound
        expect(walk(first, new Protocol(null, true), choices.length, choose).broken).toBeUndefined()
      }),
      { numRuns: walks, seed: SEED },
    )
  })
})
