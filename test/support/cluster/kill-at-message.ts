import { setTimeout as sleep } from 'node:timers/promises'
import type { Random } from '../random.ts'
import { until } from '../until.ts'
import type { ClusterStorm } from './storm.ts'
import type { TestCluster, TestNode } from './test-cluster.ts'

/** What a node does, or takes part in, while it is killed. */
export const OPERATIONS = ['join', 'move', 'take-over'] as const
type Operation = (typeof OPERATIONS)[number]

/** How long an operation may take until its message; the beats of a node reach any number at some time. */
const MESSAGE_MS_MAX = 20_000
const SETTLED_MS_MAX = 120_000
const RANGES = 4_096

/** Kills a node at the n-th message of one of its links. */
export class KillAtMessage {
  readonly #cluster: TestCluster
  readonly #storm: ClusterStorm
  readonly #random: Random

  constructor(storm: ClusterStorm) {
    this.#storm = storm
    this.#cluster = storm.cluster
    this.#random = storm.random
  }

  /**
   * Afterwards the others have all ranges and nothing moves, and the same holds once all run again.
   *
   * @param number of the message, from the begin of the operation on
   * @returns how it went
   * @throws if it does not get so within two minutes
   */
  async run(operation: Operation, side: 'postgres' | 'bucket', number: number): Promise<string> {
    const victim = this.#random.pick(this.#cluster.nodes)
    const others = this.#cluster.nodes.filter((each) => each !== victim)
    const [other, third] = others as [TestNode, TestNode]
    if (operation === 'join') {
      await victim.lose()
      await this.#untilSettled(others)
    }
    let isKilled = false
    victim.links[side].atMessage(number, () => {
      isKilled = true
      victim.signal('SIGKILL')
    })
    if (operation === 'join') await victim.start(false)
    else if (operation === 'take-over') await third.end('SIGKILL')
    else await this.#move(victim, other)
    for (const end = performance.now() + MESSAGE_MS_MAX; !isKilled && performance.now() < end; )
      await sleep(20)
    victim.links[side].atMessage(Number.POSITIVE_INFINITY, () => {})
    await victim.end('SIGKILL')
    await this.#untilSettled(operation === 'take-over' ? [other] : others)
    await this.#cluster.heal()
    await Promise.all(this.#cluster.nodes.map((node) => node.serves()))
    await this.#untilSettled(this.#cluster.nodes)
    return `${operation}, ${side}: ${victim.name} ${isKilled ? `killed at message ${number}` : 'killed at the end'}`
  }

  /** Away from the victim, and back to it: it is a source, and then a target. */
  async #move(victim: TestNode, by: TestNode): Promise<void> {
    await this.#storm.command('drain', by, victim)
    if (victim.isRunning) await this.#storm.command('balance', by)
  }

  /** The nodes, and no other ones, have all ranges, and nothing moves. */
  async #untilSettled(nodes: readonly TestNode[]): Promise<void> {
    const [asked] = nodes as [TestNode]
    const isSettled = async () => {
      const status = await this.#storm.status(asked)
      if (status === undefined) return false
      const expected = new Set(nodes.map(({ advertised }) => advertised))
      const ranges = status.nodes.reduce(
        (sum, each) => sum + (expected.has(each.address) ? each.ranges : 0),
        0,
      )
      return ranges === RANGES && status.nodes.every(({ report }) => (report?.ranges_moving ?? 0) === 0)
    }
    await until(
      isSettled,
      `${nodes.map(({ name }) => name)} have all ranges, and nothing moves`,
      SETTLED_MS_MAX,
    )
  }
}
