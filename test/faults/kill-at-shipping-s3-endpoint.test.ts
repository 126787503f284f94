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
import type { FaultProxy } from '../support/s3/fault-proxy.ts'
import { KillAtEachRequest } from '../support/s3/kill-at-each-request.ts'
import { keysOf } from '../support/s3/object-store-checks.ts'
import { ProxiedBucket } from '../support/s3/proxied-bucket.ts'
import { seededRandom } from '../support/seed.ts'
import { filesBelow } from '../support/temp-directory.ts'
import { until } from '../support/until.ts'

/** Rounds of each operation: one more than twice its requests kill at each of them, before and after the bucket has carried it out. */
const KILLS = countOf('CELLSTORE_REQUEST_KILLS')
/** Shipping goes on without end. */
const LAST_OF_SHIPPING = 25
const CELLS = 3
const CLIENTS = 2
const FLAGS = ['--durability', 'remote', '--max-lag', '1s', '--workers', '1', '--rate', '1000000']

let bucket: ProxiedBucket
/** For the one node that takes over: the other one's requests do not count. */
let newcomer: FaultProxy
beforeAll(async () => {
  bucket = await ProxiedBucket.start(seededRandom())
  newcomer = await bucket.anotherProxy(seededRandom())
})
afterAll(async () => {
  await newcomer.stop()
  await bucket.stop()
})

/** A node under changes with the durability remote, which is killed at a request to its bucket. */
class KilledShipping {
  readonly prefix = `shipping-${randomUUID()}`
  readonly place = new Workplace(bucket.environment(this.prefix))
  readonly random: Random
  node!: ServedNode
  writers!: HttpWriters
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
    return true
  }

  /** What was acknowledged is there, and more can be acknowledged. */
  async proveNothingLost(): Promise<void> {
    await this.writers.check(this.node)
    this.write()
    await this.untilMore(CELLS)
    await this.stopWriters()
    const left = () =>
      filesBelow(this.dataDir).filter((file) => /(^|\/)(spool\/|incoming\.db)/.test(file)).length
    await until(() => left() === 0, 'the folder has no left-over of a killed process')
  }

  /** The log is one, and nothing is left that nobody can use. */
  async proveBucket(): Promise<void> {
    const objects = bucket.objects(this.prefix)
    await expectUnbrokenLog(objects)
    await objects.sweepUploads('', Date.UTC(2100, 0))
    expect(await objects.sweepUploads('', Date.UTC(2100, 0))).toBe(0)
    for (const cell of this.writers.cells.keys()) {
      const route = `/v1/databases/${cell}/backups?limit=1000`
      const { body } = await this.node.request('GET', route, undefined, this.writers.key)
      const listed = (body['backups'] as { version: string }[]).map(({ version }) => version)
      expect((await keysOf(objects, `snapshots/${cell}/backup-`)).sort()).toEqual(listed.sort())
    }
    await objects.close()
  }
}

interface Operation {
  name: string
  last?: number
  run(killed: KilledShipping, kill: KillAtEachRequest): Promise<void>
}

const OPERATIONS: Operation[] = [
  {
    name: 'while it ships',
    last: LAST_OF_SHIPPING,
    run: async (killed, kill) => {
      killed.write()
      await killed.untilMore(3)
      kill.arm(() => killed.kill())
      await until(() => kill.isKilled, 'it was killed')
      kill.disarm()
      await killed.node.stop('SIGKILL')
      await killed.stopWriters()
      if (killed.random.chance(0.5)) killed.loseDirectory()
      await killed.serve()
    },
  },
  {
    name: 'while it recovers from a total loss',
    run: async (killed, kill) => {
      killed.write()
      await killed.untilMore(10)
      await killed.node.stop('SIGKILL')
      await killed.stopWriters()
      killed.loseDirectory()
      kill.arm(() => killed.kill())
      await killed
        .serve()
        .then(() => killed.writers.check(killed.node))
        .catch((error: Error) => expect(error.message).toMatch(/SIGKILL|: 0 |fetch failed/))
      kill.disarm()
      await killed.node.stop('SIGKILL')
      await killed.serve()
    },
  },
  {
    name: 'while it takes over from a node that writes',
    run: async (killed, kill) => {
      const first = killed.node
      killed.write()
      const stopped = first.ended.then(() => killed.stopWriters())
      await killed.untilMore(5)
      killed.newDirectory()
      kill.arm(() => killed.kill())
      await killed
        .serve('--take-over', '--object-store', bucket.url(killed.prefix, newcomer))
        .then(() => killed.writers.check(killed.node))
        .catch((error: Error) => expect(error.message).toMatch(/SIGKILL|: 0 |fetch failed/))
      kill.disarm()
      if (killed.node !== first) await killed.node.stop('SIGKILL')
      killed.newDirectory()
      await killed.serve('--take-over')
      expect(await first.ended).toEqual([1, null])
      await stopped
    },
  },
]

describe('A node under changes with the durability remote that is killed at any request to its bucket (invariants 1, 9, 10, 14)', () => {
  test.each(OPERATIONS)(
    `$name loses nothing that was acknowledged, leaves one log and no garbage: ${KILLS} rounds`,
    { timeout: 180_000 + KILLS * 30_000 },
    async ({ name, last, run }) => {
      const killed = new KilledShipping(seededRandom())
      const proxy = name.includes('takes over') ? newcomer : bucket.proxy
      const kill = new KillAtEachRequest(proxy, { first: 1 + killed.random.below(4), last })
      await killed.create()
      for (let round = 0; round < KILLS; round++) {
        await run(killed, kill)
        await killed.proveNothingLost()
        // It holds what all rounds have left, and reading all of it takes long.
        if (round % 10 === 9 || round === KILLS - 1) {
          await killed.proveBucket()
          console.info(`${name}, ${round + 1} rounds: ${kill}`)
        }
      }
      expect(await killed.node.stop()).toEqual([0, null])
      const { acknowledged, statuses } = killed.writers
      console.info(
        `${name}: ${KILLS} rounds, ${kill}; ${acknowledged} acknowledged, statuses ${JSON.stringify(statuses)}`,
      )
    },
  )
})
