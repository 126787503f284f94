import { describe, expect, test } from 'vitest'
import { calculated } from '../../bench/cluster-simulation/calculated.ts'
import { atRest, loss, outage, revocation } from '../../bench/cluster-simulation/scenarios.ts'
import { SimulatedCluster } from '../../bench/cluster-simulation/simulated-cluster.ts'
import { RANGES } from '../../src/catalog/assignment/assignment.ts'
import { SEED } from '../support/seed.ts'

/** A small one of what `bench/cluster-simulation.ts` does with a thousand nodes. */
const SETTINGS = {
  nodes: 5,
  cells: 50_000,
  busyShare: 0.01,
  ttlMs: 6_000,
  lagMs: 10_000,
  postgresMs: 2,
  bucketMs: 30,
  peerMs: 1,
  seed: SEED,
}

async function started(): Promise<SimulatedCluster> {
  const cluster = new SimulatedCluster(SETTINGS)
  await cluster.start()
  await cluster.clock.pass(20_000)
  return cluster
}

describe('the simulation of a cluster', () => {
  test('its nodes do at rest what docs/cluster.md calculates', async () => {
    const { seconds, statements, requests, monthly } = await atRest(await started(), 130)
    const expected = calculated(SETTINGS)
    const near = (value: number, than: number) => expect(Math.abs(value / than - 1)).toBeLessThan(0.1)
    near(statements.of('beat') / seconds, expected.beats)
    near((requests.sum('PUT') * 3_600) / seconds, expected.puts)
    near((requests.sum('HEAD') * 3_600) / seconds, expected.gets)
    near(monthly, expected.monthly)
  })

  test('the ranges of lost nodes come to all that are left, and no other node is taken for lost', async () => {
    const cluster = await started()
    const done = await loss(cluster, 2)
    expect(done).toMatchObject({ takers: 3, wronglyEnded: 0 })
    expect(cluster.alive.flatMap(({ ownership }) => ownership.ranges)).toHaveLength(RANGES)
    expect(done.declaredMs).toBeGreaterThan(SETTINGS.ttlMs - SETTINGS.ttlMs / 3)
    expect(done.assignedMs - done.fencedMs).toBeGreaterThan(SETTINGS.ttlMs / 2)
  })

  test.each(['silent', 'refusing'] as const)(
    'a PostgreSQL that is %s for a minute ends no node, and changes go on after it',
    async (kind) => {
      const cluster = await started()
      const { withoutLease, wronglyEnded, after } = await outage(cluster, kind, 60)
      expect({ withoutLease, wronglyEnded, calls: after.calls.sum() }).toEqual({
        withoutLease: 0,
        wronglyEnded: 0,
        calls: 0,
      })
      const { calls } = await revocation(cluster)
      expect(calls.of('catch-up')).toBe(4)
    },
  )
})
