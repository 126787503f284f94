import { expect, test } from 'vitest'
import { KillAtMessage, OPERATIONS, SIDES, type Side } from '../../support/cluster/kill-at-message.ts'
import { ClusterStorm } from '../../support/cluster/storm.ts'
import { TestCluster } from '../../support/cluster/test-cluster.ts'
import { countOf } from '../../support/counts.ts'
import { hasPostgres } from '../../support/postgres.ts'
import type { Random } from '../../support/random.ts'
import { seededRandom } from '../../support/seed.ts'
import { lanes, sideBySide } from '../../support/side-by-side.ts'

const KILLS = countOf('CELLSTORE_CLUSTER_KILLS')
/** Of the nodes, so that what a lost one had is elsewhere soon. */
const TTL = ['--cluster-ttl', '4s']

interface Kill {
  side: Side
  number: number
}

/** Three nodes with clients that never stop asking; nothing that was acknowledged may be lost. */
async function underClients(random: Random, run: (kills: KillAtMessage) => Promise<void>): Promise<void> {
  const cluster = await TestCluster.start({ nodes: 3, flags: ['--durability', 'remote', ...TTL] })
  const storm = new ClusterStorm(cluster, random)
  try {
    await storm.begin(2)
    await run(new KillAtMessage(storm))
    await storm.finish()
    console.info(JSON.stringify(storm.counts))
    expect(storm.violations.slice(0, 10)).toEqual([])
    expect(storm.counts['acknowledged']).toBeGreaterThan(0)
  } catch (err) {
    console.info(`kept: ${storm.keep()}`)
    throw err
  } finally {
    await cluster.stop()
  }
}

/** As many messages of one link as there are, or some of them. */
function chosen(random: Random, side: Side, messages: number): Kill[] {
  const numbers = Array.from({ length: messages }, (_, i) => i + 1)
  if (KILLS < messages)
    for (let i = 0; i < KILLS; i++) {
      const other = i + random.below(messages - i)
      ;[numbers[i], numbers[other]] = [numbers[other] as number, numbers[i] as number]
    }
  return numbers.slice(0, Math.min(KILLS, messages)).map((number) => ({ side, number }))
}

test.skipIf(!hasPostgres).each(OPERATIONS)(
  `During a %s, a node is killed at any of its messages to its bucket or to PostgreSQL: the others get all ranges, nothing moves for ever, and nothing that was acknowledged is lost: ${KILLS} kills on each side (C1, C3, C5)`,
  { timeout: 240_000 + Math.min(KILLS, 200) * 240_000 },
  async (operation) => {
    const random = seededRandom()
    let kills: Kill[] = []
    await underClients(random, async (each) => {
      const messages = await each.count(operation)
      kills = SIDES.flatMap((side) => chosen(random, side, messages[side]))
      console.info(`a ${operation} takes ${JSON.stringify(messages)} messages: ${kills.length} kills`)
      const [first] = kills.splice(0, 1)
      if (first !== undefined) await each.run(operation, first.side, first.number)
    })
    await sideBySide(lanes(kills), (lane) =>
      underClients(random, async (each) => {
        for (const { side, number } of lane) {
          await each.run(operation, side, number)
          console.info(`${operation}: killed at message ${number} to ${side}`)
        }
      }),
    )
  },
)
