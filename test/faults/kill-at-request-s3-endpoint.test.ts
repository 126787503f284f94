import { randomUUID } from 'node:crypto'
import fs from 'node:fs'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { S3ObjectStore } from '../../src/backup/object-store/s3/s3-object-store.ts'
import { type ServedNode, Workplace } from '../support/cli/workplace.ts'
import { countOf } from '../support/counts.ts'
import { FaultProxy } from '../support/s3/fault-proxy.ts'
import { collectAll } from '../support/s3/object-store-checks.ts'
import { S3Place, s3FromEnvironment } from '../support/s3/s3-place.ts'
import { ScriptedS3 } from '../support/s3/scripted-s3.ts'
import { seededRandom } from '../support/seed.ts'
import { filesBelow } from '../support/temp-directory.ts'
import { until } from '../support/until.ts'

/** Kills of each operation; each at another request, before or after the bucket has carried it out. */
const KILLS = countOf('CELLSTORE_REQUEST_KILLS')
/** Larger than a part, so that the upload has several requests. Random bytes do not compress. */
const LARGE_BYTES = 9_000_000

/** The endpoint of the environment, or an S3 in memory that lists unfinished uploads. */
const real = s3FromEnvironment()
let scripted: ScriptedS3 | undefined
let proxy: FaultProxy
let bucket: { bucket: string; endpoint: string; env: Record<string, string> }

beforeAll(async () => {
  if (real?.endpoint === undefined) scripted = await ScriptedS3.start()
  else {
    const place = new S3Place(real)
    await place.makeBucket()
    place.close()
  }
  const endpoint = real?.endpoint ?? (scripted as ScriptedS3).endpoint
  proxy = await FaultProxy.start(endpoint, seededRandom())
  const { AWS_ACCESS_KEY_ID = '', AWS_SECRET_ACCESS_KEY = '' } = process.env
  const { accessKeyId, secretAccessKey } = scripted?.credentials ?? {
    accessKeyId: AWS_ACCESS_KEY_ID,
    secretAccessKey: AWS_SECRET_ACCESS_KEY,
  }
  const env = { AWS_ACCESS_KEY_ID: accessKeyId, AWS_SECRET_ACCESS_KEY: secretAccessKey }
  bucket = { bucket: scripted?.bucket ?? (real?.bucket as string), endpoint, env }
})
afterAll(async () => {
  await proxy.stop()
  await scripted?.stop()
})

/** A node with a cell that it has backed up, on a bucket behind the proxy. */
class KilledNode {
  readonly prefix = `kills-${randomUUID()}`
  readonly place: Workplace
  /** What the cell holds in each acknowledged version. */
  readonly #acknowledged = new Map<string, number>()
  node!: ServedNode
  key = ''
  cell = ''
  rows = 0

  constructor() {
    const query = new URLSearchParams({ endpoint: proxy.endpoint, region: 'us-east-1', path_style: 'true' })
    const url = `s3://${bucket.bucket}/${this.prefix}?${query}`
    this.place = new Workplace({ CELLSTORE_OBJECT_STORE: url, ...bucket.env })
  }

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
    const [accessKeyId, secretAccessKey] = Object.values(bucket.env) as [string, string]
    const store = new S3ObjectStore({
      bucket: bucket.bucket,
      endpoint: bucket.endpoint,
      prefix: this.prefix,
      credentials: { accessKeyId, secretAccessKey },
    })
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

  /** Kills the node with SIGKILL at the n-th request of what follows. */
  killAt(n: number, when: 'before' | 'after', node: { kill: (signal: 'SIGKILL') => unknown }): void {
    proxy.requests = 0
    proxy.onRequest = (number, at) => {
      if (number === n && at === when) node.kill('SIGKILL')
    }
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
    { timeout: 60_000 + KILLS * 20_000 },
    async (_, operation) => {
      const random = seededRandom()
      const killed = new KilledNode()
      await killed.create()
      let most = 5
      for (let kill = 0; kill < KILLS; kill++) {
        await killed.write()
        const [n, when] = [1 + random.below(most + 1), random.pick(['before', 'after'] as const)]
        killed.killAt(n, when, killed.node.child)
        const { rows } = killed
        const outcome = await operation(killed).then(
          () => 'done',
          (error: Error) => error,
        )
        proxy.onRequest = () => {}
        most = Math.max(most, proxy.requests)
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
      console.info(`${KILLS} kills at up to ${most} requests`)
    },
  )

  test(`while it recovers from a total loss, recovers at its next start: ${KILLS} kills`, {
    timeout: 60_000 + KILLS * 20_000,
  }, async () => {
    const random = seededRandom()
    const killed = new KilledNode()
    await killed.create()
    let most = 8
    for (let kill = 0; kill < KILLS; kill++) {
      await killed.write()
      await killed.backup('/backup/incr')
      await killed.node.stop('SIGKILL')
      fs.rmSync(killed.place.dataDir, { recursive: true })
      killed.killAt(1 + random.below(most), random.pick(['before', 'after'] as const), {
        kill: () => process.kill(killed.place.readOwner().pid, 'SIGKILL'),
      })
      // The start or the first use of the cell is cut short, or both succeed.
      await killed
        .start()
        .then(() => killed.counted())
        .catch(() => {})
      await killed.node.stop('SIGKILL')
      proxy.onRequest = () => {}
      most = Math.max(most, proxy.requests)
      await killed.start()
      expect(await killed.counted()).toBe(killed.rows)
      await killed.prove()
    }
    console.info(`${KILLS} kills at up to ${most} requests`)
  })
})
