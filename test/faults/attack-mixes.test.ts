import { expect, test, vi } from 'vitest'
import { ATTACKS, accountAttacks } from '../../bench/neighbours/attacks.ts'
import { NodeUnderAttack } from '../../bench/neighbours/node-under-attack.ts'
import { countOf } from '../support/counts.ts'
import { hasNginx } from '../support/nginx.ts'
import type { Random } from '../support/random.ts'
import { seededRandom } from '../support/seed.ts'

const MIXES = countOf('CELLSTORE_ATTACK_MIXES')
const ATTACKS_MAX = 5
const ATTACK_MS = 3_000
const AFTER_MS = 500
const NODE_MB_MAX = 600
/** What is aimed at connections is a proxy's to ward off. */
const NAMES = Object.keys(hasNginx ? ATTACKS : accountAttacks)

vi.setConfig({ testTimeout: 180_000 + MIXES * 60_000 })

test(`beside any mix of a new account's attacks, another account is served without a failure, and loses one worker at most (${MIXES} mixes)`, async () => {
  const random = seededRandom()
  for (let mix = 1; mix <= MIXES; mix++) {
    const names = mixOf(random)
    const node = await NodeUnderAttack.start({
      flags: ['--workers', '2'],
      account: 'known',
      proxied: hasNginx,
    })
    let stopped: Awaited<ReturnType<typeof node.stop>> | undefined
    try {
      const { neighbour, seen, kills } = await node.attack(names, ATTACK_MS, random.below(2 ** 31))
      const after = await node.neighbour.measure(AFTER_MS)
      const shown = { mix, names, seen, kills: kills.length, slowest: Math.round(neighbour.max) }
      console.info(JSON.stringify(shown))
      expect.soft([...neighbour.failures, ...after.failures], names.join()).toEqual([])
      expect.soft(neighbour.requests * after.requests, names.join()).toBeGreaterThan(0)
      expect
        .soft(
          kills.filter(({ blamesNeighbour }) => blamesNeighbour),
          names.join(),
        )
        .toEqual([])
      expect.soft(kills.filter(({ isOfNeighbour }) => isOfNeighbour).length, names.join()).toBeLessThan(2)
      expect.soft(await node.neighbour.twice(), names.join()).toBe(0)
      expect.soft(seen.nodeMb, names.join()).toBeLessThan(NODE_MB_MAX)
    } finally {
      stopped = await node.stop()
    }
    expect.soft(stopped.code, names.join()).toBe(0)
  }
})

/** One attack or several, in any order; the same one may be there twice. */
function mixOf(random: Random): string[] {
  return Array.from({ length: 1 + random.below(ATTACKS_MAX) }, () => random.pick(NAMES))
}
