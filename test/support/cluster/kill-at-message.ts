import { setTimeout as sleep } from 'node:timers/promises'
import { until } from '../until.ts'
import type { ClusterStorm } from './storm.ts'
import type { TestNode } from './test-cluster.ts'

/** What a node does, or takes part in, while it is killed. */
export const OPERATIONS = ['join', 'move', 'take-over', 'drain'] as const
export type Operation = (typeof OPERATIONS)[number]

export const SIDES = ['postgres', 'bucket'] as const
export type Side = (typeof SIDES)[number]

/** Nodes beat, so a node that lives comes to any number. */
const MESSAGE_MS_MAX = 150_000
const DONE_MS_MAX = 120_000
const LOOK_EVERY_MS = 200

interface Parties {
  victim: TestNode
  /** Two nodes, of which the second one is lost in a take-over. */
  others: readonly [TestNode, TestNode]
}

/** Kills a node of three at the n-th message of one of its links in an operation. */
export class KillAtMessage {
  readonly #storm: ClusterStorm

  constructor(storm: ClusterStorm) {
    this.#storm = storm
  }

  /** How many messages pass on each link of a node that does it all. */
  async count(operation: Operation): Promise<Record<Side, number>> {
    const parties = await this.#prepare(operation)
    const { links } = parties.victim
    const before = SIDES.map((side) => links[side]?.messages ?? 0)
    await this.#begin(operation, parties)
    await this.#untilDone(operation, parties)
    const [postgres = 0, bucket = 0] = SIDES.map((side, i) => (links[side]?.messages ?? 0) - (before[i] ?? 0))
    await this.#storm.settle()
    return { postgres, bucket }
  }

  /**
   * Afterwards the others have all ranges and nothing moves, and the same holds once all run again.
   *
   * @param number of the message, from the begin of the operation on
   * @throws if the message does not come; if it does not get so within two minutes
   */
  async run(operation: Operation, side: Side, number: number): Promise<void> {
    const parties = await this.#prepare(operation)
    const { victim, others } = parties
    let isKilled = false
    victim.links[side]?.atMessage(number, () => {
      isKilled = true
      victim.signal('SIGKILL')
    })
    await this.#begin(operation, parties)
    await until(
      () => isKilled && !victim.isRunning,
      `message ${number} to ${side} in a ${operation}`,
      MESSAGE_MS_MAX,
    )
    await this.#storm.settle(operation === 'take-over' ? [others[0]] : others)
    await this.#storm.settle()
  }

  /** All is as it has to be before it. */
  async #prepare(operation: Operation): Promise<Parties> {
    const { cluster, random } = this.#storm
    const victim = random.pick(cluster.nodes)
    const others = cluster.nodes.filter((each) => each !== victim) as [TestNode, TestNode]
    const parties = { victim, others }
    if (operation === 'join') {
      await victim.lose()
      await this.#storm.settle(others)
    } else if (operation === 'move') await this.#until(parties, 'drain')
    else await this.#until(parties, 'balance')
    return parties
  }

  async #begin(operation: Operation, { victim, others: [other, third] }: Parties): Promise<void> {
    if (operation === 'join') await victim.start(false)
    else if (operation === 'take-over') await third.end('SIGKILL')
    else void this.#storm.command(operation === 'drain' ? 'drain' : 'balance', other, victim)
  }

  async #untilDone(operation: Operation, parties: Parties): Promise<void> {
    const { victim, others } = parties
    // A node that is asked for its status asks PostgreSQL: the victim is not, so that its messages are those of the operation.
    if (operation === 'join') await this.#storm.settle(undefined, others)
    else if (operation === 'take-over') await this.#storm.settle([victim, others[0]], [others[0]])
    else await this.#until(parties, operation === 'drain' ? 'drain' : 'balance')
  }

  /** Until the victim has nothing, or all have their part. */
  async #until({ victim, others: [other] }: Parties, what: 'drain' | 'balance'): Promise<void> {
    const holds = async () => {
      const status = await other.status()
      const ranges = status?.nodes.find(({ address }) => address === victim.advertised)?.ranges
      if (what === 'drain' ? ranges === 0 : status?.level === true && (ranges ?? 0) > 0) return true
      await this.#storm.command(what, other, victim)
      await sleep(LOOK_EVERY_MS)
      return false
    }
    await until(holds, `a ${what} of ${victim.name}`, DONE_MS_MAX)
    await this.#storm.settle()
  }
}
