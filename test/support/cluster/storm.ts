import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type { ClusterStatus } from '../../../src/cluster/cluster-status.ts'
import type { Random } from '../random.ts'
import { until } from '../until.ts'
import { CellClients } from './cell-clients.ts'
import { checkRevocation, type KeyUse, type Loss, type Violation } from './history.ts'
import type { TestCluster, TestNode } from './test-cluster.ts'

type Fault = (storm: ClusterStorm) => Promise<void>

const CLOCK_JUMPS = 'a clock jumps'
const HOUR_MS = 3_600_000
const RANGES = 4_096
const SETTLED_MS_MAX = 120_000
const LOOK_EVERY_MS = 2_000

/** What happens to a cluster, at random. Each fault mends itself, or is mended at the end of the storm. */
const FAULTS: Readonly<Record<string, Fault>> = {
  'kill a node, start it again': async ({ node, random }) => {
    const victim = node()
    await victim.end('SIGKILL')
    await sleep(random.below(12_000))
    await victim.start(false)
  },
  'lose a machine, start an empty one': async ({ node, random }) => {
    const victim = node()
    await victim.lose()
    await sleep(random.below(12_000))
    await victim.start(false)
  },
  'stop a node cleanly, start it again': async ({ node }) => {
    const victim = node()
    await Promise.race([victim.end('SIGTERM'), sleep(30_000)])
    await victim.end('SIGKILL')
    await victim.start(false)
  },
  'a node sleeps': async ({ node, random }) => {
    const victim = node()
    victim.signal('SIGSTOP')
    await sleep(1_000 + random.below(20_000))
    victim.signal('SIGCONT')
  },
  'a link is cut': async ({ node, random }) => {
    const link = random.pick(Object.values(node().links))
    link.set(random.pick(['cut', 'stalled']))
    await sleep(500 + random.below(15_000))
    link.set('up')
  },
  'a node is cut off from two sides': async ({ node, random }) => {
    const links = Object.values(node().links)
    if (links.length > 2) links.splice(random.below(links.length), 1)
    for (const link of links) link.set(random.pick(['cut', 'stalled']))
    await sleep(500 + random.below(15_000))
    for (const link of links) link.set('up')
  },
  'a link is slow': async ({ node, random }) => {
    const link = random.pick(Object.values(node().links))
    link.set('up', 50 + random.below(400))
    await sleep(random.below(8_000))
    link.set('up')
  },
  'PostgreSQL is killed, and comes back': async ({ cluster, random }) => {
    await cluster.postgres.kill()
    await sleep(random.below(10_000))
    await cluster.postgres.restart()
  },
  'PostgreSQL forgets its last commits': async ({ cluster, random }) => {
    const copy = cluster.postgres.copy()
    await sleep(random.below(3_000))
    await cluster.postgres.putBack(copy)
  },
  'PostgreSQL is killed, and comes back without a node': async ({ cluster, node }) => {
    const victim = node()
    await cluster.postgres.kill()
    await victim.end('SIGKILL')
    await cluster.postgres.restart()
    await sleep(10_000)
    await victim.start(false)
  },
  [CLOCK_JUMPS]: async ({ node, random }) => {
    node().shiftClock(clockOf(random))
    await sleep(random.below(4_000))
  },
  'a drain': async (storm) => {
    await storm.command('drain')
  },
  'a balance': async (storm) => {
    await storm.command('balance')
  },
}

/** Up to an hour before or after this machine's. */
export function clockOf(random: Random): number {
  return random.below(2 * HOUR_MS) - HOUR_MS
}

interface StormOptions {
  cells: number
  steps: number
  only?: readonly string[]
  /** Whether clocks may jump. */
  clocksJump?: boolean
  /** What a lost node had acknowledged may be lost, as far as `cluster status` says so. Otherwise nothing may. */
  loses?: boolean
}

/** A random history of a cluster under faults, with clients that never stop asking. */
export class ClusterStorm {
  readonly cluster: TestCluster
  readonly random: Random
  readonly counts: Record<string, number> = {}
  readonly violations: Violation[] = []
  /** What happened when. */
  readonly events: string[] = []
  /** For each kind of fault, the longest time in which a cell answered nobody, from the fault on until the next one. */
  readonly silences: Record<string, number[]> = {}
  /** By the ids of the nodes that were lost. */
  readonly #losses = new Map<string, Loss>()
  readonly #addresses = new Map<string, string>()
  #cells: CellClients[] = []
  #isOver = false

  constructor(cluster: TestCluster, random: Random) {
    this.cluster = cluster
    this.random = random
  }

  /** Begins to ask, all the time and of any node. */
  async begin(cells: number): Promise<void> {
    for (let i = 0; i < cells; i++) this.#cells.push(await CellClients.create(this.cluster, this.random))
    for (const each of this.#cells) each.start()
  }

  readonly node = (): TestNode => {
    const node = this.random.pick(this.cluster.nodes)
    this.events.push(`  ${new Date().toISOString()} ${node.name}`)
    return node
  }

  async run({ cells, steps, only, clocksJump = false, loses = false }: StormOptions): Promise<void> {
    await this.begin(cells)
    const background = Promise.all([this.#revoking(), this.#watching()])
    const names = Object.keys(FAULTS).filter(
      (name) => only?.includes(name) ?? (clocksJump || name !== CLOCK_JUMPS),
    )
    for (let step = 0; step < steps; step++) {
      const name = this.random.pick(names)
      this.#count(name)
      this.events.push(`${new Date().toISOString()} ${name}`)
      const begun = performance.now()
      await FAULTS[name]?.(this)
      await sleep(this.random.below(2_000))
      // A taker says what may be lost for as long as it runs.
      if (loses) await this.settle()
      else this.#startEnded()
      const silent = this.#cells.map((each) => each.longestSilenceMs(begun, performance.now()))
      this.silences[name] = [...(this.silences[name] ?? []), Math.max(...silent)]
    }
    await this.cluster.heal()
    await this.settle()
    this.#isOver = true
    await background
    await this.finish(loses)
  }

  /** Waits until the nodes, and no other ones, have all ranges, and nothing moves, as those see it that are asked. */
  async settle(nodes: readonly TestNode[] = this.cluster.nodes, asked = nodes): Promise<void> {
    const expected = nodes.map(({ advertised }) => advertised)
    const isSettled = async (node: TestNode) => {
      const status = await node.status()
      this.#noteLosses(status)
      if (status === undefined || status.nodes.length !== nodes.length) return false
      const known = status.nodes.filter(
        ({ address, state, report }) =>
          expected.includes(address) && state !== 'dead' && report?.ranges_moving === 0,
      )
      return known.length === nodes.length && known.reduce((sum, { ranges }) => sum + ranges, 0) === RANGES
    }
    const names = nodes.map(({ name }) => name)
    for (const node of asked)
      await until(
        async () => {
          this.#startEnded(nodes)
          return await isSettled(node)
        },
        `${names} have all ranges, and nothing moves, as ${node.name} sees it`,
        SETTLED_MS_MAX,
      )
  }

  /** As a service manager does. */
  #startEnded(nodes: readonly TestNode[] = this.cluster.nodes): void {
    for (const node of nodes) if (!node.isRunning) void node.start(false)
  }

  /** Ends the clients, and checks what they saw. */
  async finish(loses = false): Promise<void> {
    const losses = [...this.#losses.values()]
    this.counts['taken over'] = losses.length
    this.counts['lost from an unknown time'] = losses.filter(({ from }) => from < 0).length
    for (const each of this.#cells) {
      await each.stop()
      this.violations.push(
        ...(await each.check(loses ? losses : [])).map((found) => ({
          ...found,
          what: `${each.id}: ${found.what}`,
        })),
      )
      this.counts['acknowledged'] = (this.counts['acknowledged'] ?? 0) + each.acknowledged
      this.counts['lost'] = (this.counts['lost'] ?? 0) + each.lost
      this.counts['reads'] = (this.counts['reads'] ?? 0) + each.reads.length
      const swapped = each.swaps.filter(({ acknowledged }) => acknowledged).length
      this.counts['swapped'] = (this.counts['swapped'] ?? 0) + swapped
      for (const [status, count] of Object.entries(each.statuses))
        this.counts[`status ${status}`] = (this.counts[`status ${status}`] ?? 0) + count
    }
  }

  /** Keeps what is needed to find out why. @returns the folder */
  keep(): string {
    const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'cellstore-storm-'))
    for (const { name, log } of this.cluster.nodes) fs.writeFileSync(path.join(folder, `${name}.log`), log)
    fs.writeFileSync(path.join(folder, 'events'), this.events.join('\n'))
    fs.writeFileSync(path.join(folder, 'violations'), JSON.stringify(this.violations, null, 1))
    const appends = this.#cells.map(({ id, appends }) => ({ id, appends }))
    fs.writeFileSync(
      path.join(folder, 'appends'),
      JSON.stringify({ origin: performance.timeOrigin, appends }),
    )
    this.cluster.keepBucket(folder)
    return folder
  }

  /** Asks a node as its operator does, and does not care how it ends: others may be down, or cut off. */
  async command(what: 'drain' | 'balance', by = this.node(), drained = this.node()): Promise<void> {
    if (what === 'drain') await by.asked((client) => client.drainNode({ node: drained.advertised }))
    else await by.asked((client) => client.balanceNodes())
  }

  async #watching(): Promise<void> {
    while (!this.#isOver) {
      await sleep(LOOK_EVERY_MS)
      for (const node of this.cluster.nodes) this.#noteLosses(await node.status())
    }
  }

  #noteLosses(status: ClusterStatus | undefined): void {
    for (const { id, address } of status?.nodes ?? []) this.#addresses.set(id, address)
    for (const { node, lost_from, lost_until } of status?.taken_over ?? [])
      this.#losses.set(node, {
        by: this.#addresses.get(node) ?? '',
        from: lost_from === null ? Number.NEGATIVE_INFINITY : timeOf(lost_from),
        until: timeOf(lost_until),
      })
  }

  async #revoking(): Promise<void> {
    while (!this.#isOver) {
      await sleep(500)
      await this.revoke()
    }
  }

  /** Makes a key, and revokes it while every node is asked with it. */
  async revoke(): Promise<void> {
    const { cluster } = this
    const made = await this.node().request('POST', '/v1/api-keys', {
      key: cluster.key,
      body: { name: 'storm' },
    })
    if (made.status !== 201) return
    const key = String(made.body['key'])
    const uses: KeyUse[] = []
    let isOver = false
    const asking = cluster.nodes.map(async (node) => {
      while (!isOver) {
        uses.push(await this.use(node, key))
        await sleep(20)
      }
    })
    await sleep(300)
    let revokedAt: number | undefined
    for (let tries = 0; tries < 40 && revokedAt === undefined; tries++) {
      const route = `/v1/api-keys/${made.body['id']}`
      const { status } = await this.node().request('DELETE', route, { key: cluster.key })
      // A repeat after an answer that was lost finds no such key: it was revoked, and nothing says when.
      if (status === 200 || status === 204) revokedAt = performance.now()
      else if (status === 404) break
      else await sleep(500)
    }
    await sleep(300)
    isOver = true
    await Promise.all(asking)
    if (revokedAt === undefined) return
    this.#count('revoked')
    this.violations.push(...checkRevocation(revokedAt, uses))
  }

  /** Reads something with a key. Not a list: before that, a node looks into PostgreSQL. */
  async use(node: TestNode, key: string): Promise<KeyUse> {
    const begun = performance.now()
    const route = `/v1/databases/${this.random.pick(this.#cells).id}/kv/register`
    const { status } = await node.request('GET', route, { key, msMax: 5_000 })
    return { begun, ended: performance.now(), admitted: status === 200 }
  }

  #count(what: string): void {
    this.counts[what] = (this.counts[what] ?? 0) + 1
  }
}

/** A wall clock's time by the clock of the histories. */
function timeOf(iso: string): number {
  return Date.parse(iso) - performance.timeOrigin
}
