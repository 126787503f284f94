import { randomUUID } from 'node:crypto'
import fs from 'node:fs'
import path from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { expectUnbrokenLog } from '../support/backup/stored-logs.ts'
import { type ServedNode, Workplace } from '../support/cli/workplace.ts'
import { countOf } from '../support/counts.ts'
import { HttpWriters } from '../support/faults/http-writers.ts'
import { archiversOf } from '../support/processes.ts'
import type { Random } from '../support/random.ts'
import { ProxiedBucket } from '../support/s3/proxied-bucket.ts'
import { seededRandom } from '../support/seed.ts'
import { until } from '../support/until.ts'

/** Kills of each operation; each at another request, before or after the bucket has carried it out. */
const KILLS = countOf('CELLSTORE_REQUEST_KILLS')
const CELLS = 3
const CLIENTS = 2
const FLAGS = ['--durability', 'remote', '--max-lag', '1s', '--workers', '1', '--rate', '1000000']

let bucket: ProxiedBucket
beforeAll(async () => {
  bucket = await ProxiedBucket.start(seededRandom())
})
afterAll(() => bucket.stop())

/** A node under changes with the durability remote, which is killed at a request to its bucket. */
class KilledShipping {
  readonly prefix = `shipping-${randomUUID()}`
  readonly place = new Workplace(bucket.environment(this.prefix))
  readonly random: Random
  node!: ServedNode
  writers!: HttpWriters
  /** The most requests of one operation. */
  most = 6
  kills = 0
  #directory = 0
  #stopWriters = async () => {}

  constructor(random: Random) {
    this.random = random
  }

  get dataDir(): string {
    return path.join(this.place.folder, `data-${this.#directory}`)
  }

  async create(): Promise<void> {
    await this.serve()
    this.writers = await HttpWriters.create(this.node, CELLS)
  }

  async serve(...flags: string[]): Promise<void> {
    this.node = await this.place.serve(...FLAGS, '--data-dir', this.dataDir, ...flags)
  }

  write(): void {
    this.#stopWriters = this.writers.start(this.node, CLIENTS, this.random)
  }

  stopWriters(): Promise<void> {
    return this.#stopWriters()
  }

  async untilMore(more: number): Promise<void> {
    const goal = this.writers.acknowledged + more
    await until(() => this.writers.acknowledged >= goal, 'more is acknowledged')
  }

  newDirectory(): void {
    this.#directory++
  }

  loseDirectory(): void {
    fs.rmSync(this.dataDir, { recursive: true, force: true, maxRetries: 10 })
  }

  /** Kills the node that runs on the directory now, or its archiver. @returns whether there is one */
  kill(): boolean {
    const owner = path.join(this.dataDir, 'owner.json')
    if (!fs.existsSync(owner)) return false
    const { pid } = JSON.parse(fs.readFileSync(owner, 'utf8')) as { pid: number }
    const [archiver] = this.random.chance(0.3) ? archiversOf(pid) : []
    process.kill(archiver ?? pid, 'SIGKILL')
    this.kills++
    return true
  }

  /** At the n-th request from now on, or the next one after it at which the node runs. */
  killLater(): void {
    const [n, when] = [1 + this.random.below(this.most + 1), this.random.pick(['before', 'after'] as const)]
    bucket.proxy.requests = 0
    bucket.proxy.onRequest = (number, at) => {
      if (number < n || at !== when || !this.kill()) return
      bucket.proxy.onRequest = () => {}
    }
  }

  killNoMore(): void {
    bucket.proxy.onRequest = () => {}
    this.most = Math.max(this.most, Math.min(bucket.proxy.requests, 40))
  }

  /** What was acknowledged is there, more can be acknowledged, and the log is one. */
  async prove(): Promise<void> {
    await this.writers.check(this.node)
    this.write()
    await this.untilMore(CELLS)
    await this.stopWriters()
    const objects = bucket.objects(this.prefix)
    await expectUnbrokenLog(objects)
    await objects.sweepUploads('', Date.UTC(2100, 0))
    expect(await objects.sweepUploads('', Date.UTC(2100, 0))).toBe(0)
    await objects.close()
  }
}

type Operation = (killed: KilledShipping) => Promise<void>

const OPERATIONS: [string, Operation][] = [
  [
    'while it ships',
    async (killed) => {
      killed.write()
      await killed.untilMore(3)
      killed.killLater()
      const { acknowledged } = killed.writers
      const { child } = killed.node
      const hasEnded = () => child.signalCode !== null
      await until(() => hasEnded() || killed.writers.acknowledged > acknowledged + 30, 'it was killed')
      killed.killNoMore()
      await killed.node.stop('SIGKILL')
      await killed.stopWriters()
      if (killed.random.chance(0.5)) killed.loseDirectory()
      await killed.serve()
    },
  ],
  [
    'while it recovers from a total loss',
    async (killed) => {
      killed.write()
      await killed.untilMore(10)
      await killed.node.stop('SIGKILL')
      await killed.stopWriters()
      killed.loseDirectory()
      killed.killLater()
      await killed
        .serve()
        .then(() => killed.writers.check(killed.node))
        .catch((error: Error) => expect(error.message).toMatch(/SIGKILL|: 0 |fetch failed/))
      killed.killNoMore()
      await killed.node.stop('SIGKILL')
      await killed.serve()
    },
  ],
  [
    'while it takes over from a node that writes',
    async (killed) => {
      const first = killed.node
      killed.write()
      const stopped = first.ended.then(() => killed.stopWriters())
      await killed.untilMore(5)
      killed.newDirectory()
      killed.killLater()
      await killed.serve('--take-over').catch((error: Error) => expect(error.message).toContain('SIGKILL'))
      killed.killNoMore()
      if (killed.node !== first) await killed.node.stop('SIGKILL')
      killed.newDirectory()
      await killed.serve('--take-over')
      expect(await first.ended).toEqual([1, null])
      await stopped
    },
  ],
]

describe('A node under changes with the durability remote that is killed at any request to its bucket (invariants 1, 9, 10, 14)', () => {
  test.each(OPERATIONS)(
    `%s loses nothing that was acknowledged, and leaves one log: ${KILLS} rounds`,
    { timeout: 60_000 + KILLS * 30_000 },
    async (_, operation) => {
      const killed = new KilledShipping(seededRandom())
      await killed.create()
      for (let round = 0; round < KILLS; round++) {
        await operation(killed)
        await killed.prove()
      }
      expect(await killed.node.stop()).toEqual([0, null])
      const { acknowledged, statuses } = killed.writers
      console.info(
        `${KILLS} rounds, ${killed.kills} kills at up to ${killed.most} requests, ${acknowledged} acknowledged, statuses ${JSON.stringify(statuses)}`,
      )
    },
  )
})
