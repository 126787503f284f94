import { randomUUID } from 'node:crypto'
import fs from 'node:fs'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type ServedNode, Workplace } from '../support/cli/workplace.ts'
import { countOf } from '../support/counts.ts'
import { KillAtEachRequest } from '../support/s3/kill-at-each-request.ts'
import { collectAll } from '../support/s3/object-store-checks.ts'
import { ProxiedBucket } from '../support/s3/proxied-bucket.ts'
import { seededRandom } from '../support/seed.ts'
import { filesBelow } from '../support/temp-directory.ts'
import { until } from '../support/until.ts'

/** Rounds of each operation: one more than twice its requests kill at each of them, before and after the bucket has carried it out. */
const KILLS = countOf('CELLSTORE_REQUEST_KILLS')
/** Larger than a part, so that the upload has several requests. Random bytes do not compress. */
const LARGE_BYTES = 9_000_000

let bucket: ProxiedBucket
beforeAll(async () => {
  bucket = await ProxiedBucket.start(seededRandom())
})
afterAll(() => bucket.stop())

/** A node with a cell that it has backed up, on a bucket behind the proxy. */
class KilledNode {
  readonly prefix = `kills-${randomUUID()}`
  readonly place = new Workplace(bucket.environment(this.prefix))
  /** What the cell holds in each acknowledged version. */
  readonly #acknowledged = new Map<string, number>()
  node!: ServedNode
  key = ''
  cell = ''
  rows = 0

  async start(): Promise<void> {
    this.node = await this.place.serve('--workers', '1', '--rate', '1000000')
    this.key ||= this.node.key
  }

  async create(): Promise<void> {
    await this.start()
    this.cell = String((await this.ask('POST', '/v1/databases')).body['id'])
    await this.sql('CREATE TABLE t (n INTEGER PRIMARY KEY, x BLOB)')
    await this.sql('INSERT INTO t (x) VALUES (randomblob(?))', [LARGE_BYTES])
    this.rows = 1
    await this.backup('/backup')
  }

  ask(method: string, route: string, body?: unknown) {
    return this.node.request(method, route, body, this.key)
  }

  async sql(sql: string, params: unknown[] = []): Promise<Record<string, unknown>> {
    const { status, body } = await this.ask('POST', `/v1/databases/${this.cell}/sql`, { sql, params })
    if (status !== 200) throw new Error(`${sql}: ${status} ${JSON.stringify(body)}`)
    return body
  }

  async write(): Promise<void> {
    await this.sql('INSERT INTO t (x) VALUES (randomblob(1000))')
    this.rows++
  }

  /** Undefined if the node did not live to answer. */
  async backup(route: '/backup' | '/backup/incr'): Promise<void> {
    const { rows } = this
    const { status, body } = await this.ask('POST', `/v1/databases/${this.cell}${route}`)
    if (status !== 200) throw new Error(`${route}: ${status} ${JSON.stringify(body)}`)
    this.#acknowledged.set(String(body['version']), rows)
  }

  async restore(version = this.oldest): Promise<void> {
    const answer = await this.ask('POST', `/v1/databases/${this.cell}/restore`, { version })
    if (answer.status !== 200) throw new Error(`restore: ${answer.status} ${JSON.stringify(answer.body)}`)
    this.rows = this.#acknowledged.get(version) ?? this.rows
  }

  get oldest(): string {
    return [...this.#acknowledged.keys()][0] as string
  }

  async counted(): Promise<number> {
    const { rows } = await this.sql('SELECT count(*) AS n FROM t')
    return (rows as { n: number }[])[0]?.n as number
  }

  /** Every acknowledged version restores, the next backup succeeds, and nothing is left that nobody can use. */
  async prove(): Promise<void> {
    for (const [version, rows] of [...this.#acknowledged].slice(-3)) {
      await this.restore(version)
      expect([version, await this.counted()]).toEqual([version, rows])
    }
    await this.write()
    await this.backup('/backup/incr')
    const { body } = await this.ask('GET', `/v1/databases/${this.cell}/backups?limit=1000`)
    const listed = (body['backups'] as { version: string }[]).map(({ version }) => version)
    expect(listed).toEqual(expect.arrayContaining([...this.#acknowledged.keys()]))
    const store = bucket.objects(this.prefix)
    const objects = await collectAll(store.list(`snapshots/${this.cell}/`))
    const isMark = ({ key }: { key: string }) => key.includes('/restored-')
    const versions = objects.filter((each) => !isMark(each)).map(({ key }) => key)
    expect(versions.sort()).toEqual([...listed].sort())
    // Of the restores' marks, the newest stays.
    expect(objects.filter(isMark).length).toBeLessThanOrEqual(1)
    // After the sweep, no part of an upload that was cut short is left to pay for.
    await store.sweepUploads('', Date.UTC(2100, 0))
    expect(await store.sweepUploads('', Date.UTC(2100, 0))).toBe(0)
    await store.close()
    const left = filesBelow(this.place.dataDir).filter((file) => /(^|\/)(spool\/|incoming\.db)/.test(file))
    expect(left).toEqual([])
  }
}

type Operation = (killed: KilledNode) => Promise<void>

const OPERATIONS: [string, Operation][] = [
  ['a snapshot', (killed) => killed.backup('/backup')],
  ['an incremental', (killed) => killed.backup('/backup/incr')],
  ['a restore', (killed) => killed.restore()],
]

describe('A node that is killed at any request to its bucket (invariants 9, 10, 13)', () => {
  test.each(OPERATIONS)(
    `of %s loses nothing and leaves no garbage: ${KILLS} kills`,
    { timeout: 180_000 + KILLS * 20_000 },
    async (what, operation) => {
      const killed = new KilledNode()
      const kill = new KillAtEachRequest(bucket.proxy, { first: 1 + seededRandom().below(4) })
      await killed.create()
      for (let round = 0; round < KILLS; round++) {
        await killed.write()
        kill.arm(() => killed.node.child.kill('SIGKILL'))
        const { rows } = killed
        const outcome = await operation(killed).then(
          () => 'done',
          (error: Error) => error,
        )
        kill.disarm()
        if (outcome === 'done') await killed.node.stop('SIGKILL')
        else if (killed.node.child.signalCode === null) {
          await until(() => killed.node.child.signalCode !== null, `the node was killed: ${outcome}`)
        }
        await killed.start()
        // An in-place restore may have switched before the kill.
        expect([rows, killed.rows, 1]).toContain(await killed.counted())
        killed.rows = await killed.counted()
        await killed.prove()
      }
      console.info(`${what}: ${kill}`)
    },
  )

  test(`while it recovers from a total loss, recovers at its next start: ${KILLS} kills`, {
    timeout: 180_000 + KILLS * 20_000,
  }, async () => {
    const killed = new KilledNode()
    const kill = new KillAtEachRequest(bucket.proxy, { first: 1 + seededRandom().below(4) })
    await killed.create()
    for (let round = 0; round < KILLS; round++) {
      await killed.write()
      await killed.backup('/backup/incr')
      await killed.node.stop('SIGKILL')
      fs.rmSync(killed.place.dataDir, { recursive: true })
      kill.arm(() => process.kill(killed.place.readOwner().pid, 'SIGKILL'))
      // The start or the first use of the cell is cut short, or both succeed.
      await killed
        .start()
        .then(() => killed.counted())
        .catch(() => {})
      await killed.node.stop('SIGKILL')
      kill.disarm()
      await killed.start()
      expect(await killed.counted()).toBe(killed.rows)
      await killed.prove()
    }
    console.info(`a recovery: ${kill}`)
  })
})
