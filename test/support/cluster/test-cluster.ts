import { type ChildProcess, spawn } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import fs from 'node:fs'
import path from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { pathToFileURL } from 'node:url'
import { systemClock } from '../../../src/base/clock.ts'
import type { StoreFlags } from '../../../src/cli/flags.ts'
import { connectNode } from '../../../src/cli/owner/connect.ts'
import type { OwnerClient } from '../../../src/cli/owner/owner-client.ts'
import type { ClusterStatus } from '../../../src/cluster/cluster-status.ts'
import { COMPILE_CACHE, ENTRY } from '../cli/workplace.ts'
import { freePort } from '../free-port.ts'
import { shellEnv } from '../package/run.ts'
import { TestPostgres } from '../postgres.ts'
import { endpointOfTests } from '../s3/endpoint-of-tests.ts'
import type { LocalS3 } from '../s3/s3rver.ts'
import { ScriptedS3 } from '../s3/scripted-s3.ts'
import { tempDirectory } from '../temp-directory.ts'
import { Link } from './link.ts'

const SERVING_MS_MAX = 120_000
const ASKED_MS_MAX = 10_000
const KEY = /cell_sk_[0-9A-Za-z]{49}/
const SHIFTED_CLOCK = pathToFileURL(path.join(import.meta.dirname, 'shifted-clock.ts'))

export interface Answer {
  /** 0 if there was none. */
  status: number
  body: Record<string, unknown>
  etag: string | null
  /** The address at which the other nodes reach the one that did the work. */
  by: string
}

export interface ClusterParts {
  nodes: number
  /** Of each node, beside those that make it one of the cluster. */
  flags?: readonly string[]
  /** By default the endpoint of the environment, or an S3 of this process. */
  bucket?: 's3' | 'folder'
  /** The command: `dist/cellstore.js` by default. */
  entry?: string
  /** How far the wall clock of each node is from this machine's; 0 by default. */
  clocksMs?: readonly number[]
}

/** A real PostgreSQL, a bucket, and real nodes on 127.0.0.1; each node's ways to the others are links that a test can cut. */
export class TestCluster {
  readonly postgres: TestPostgres
  readonly nodes: TestNode[] = []
  /** The key that the first node printed. */
  key = ''
  readonly entry: string
  /** Undefined: it is a folder. */
  readonly #s3: LocalS3 | undefined
  readonly #prefix = `cluster-${randomUUID()}`
  readonly #root = tempDirectory('cellstore-cluster')
  readonly #flags: readonly string[]

  private constructor(postgres: TestPostgres, s3: LocalS3 | undefined, { flags, entry }: ClusterParts) {
    this.postgres = postgres
    this.#s3 = s3
    this.#flags = flags ?? []
    this.entry = entry ?? ENTRY
  }

  static async start(parts: ClusterParts): Promise<TestCluster> {
    const s3 = parts.bucket === 'folder' ? undefined : await endpointOfTests(() => ScriptedS3.start())
    const cluster = new TestCluster(await TestPostgres.start(), s3, parts)
    for (let i = 0; i < parts.nodes; i++) await cluster.add(parts.clocksMs?.[i])
    return cluster
  }

  /** Starts one more node, with an empty directory. */
  async add(clockMs = 0): Promise<TestNode> {
    const name = `n${this.nodes.length + 1}`
    const port = await freePort()
    const links: Links = { postgres: await Link.to(this.postgres.port), inbound: await Link.to(port) }
    const node = new TestNode(name, port, links, path.join(this.#root, name), {
      entry: this.entry,
      args: ['--cluster', this.postgres.url('postgres', 'cellstore', links.postgres.port), ...this.#flags],
      env: await this.#bucketOf(links),
    })
    this.nodes.push(node)
    node.shiftClock(clockMs)
    await node.start()
    this.key ||= KEY.exec(node.stdout)?.[0] ?? ''
    return node
  }

  /** Where a node finds the bucket. An S3 is behind a link. */
  async #bucketOf(links: Links): Promise<Record<string, string>> {
    if (this.#s3 === undefined) return { CELLSTORE_OBJECT_STORE: `file://${path.join(this.#root, 'bucket')}` }
    const { endpoint, bucket, credentials } = this.#s3
    links.bucket = await Link.to(Number(new URL(endpoint).port))
    const query = new URLSearchParams({
      endpoint: `http://127.0.0.1:${links.bucket.port}`,
      region: 'us-east-1',
      path_style: 'true',
    })
    return {
      CELLSTORE_OBJECT_STORE: `s3://${bucket}/${this.#prefix}?${query}`,
      AWS_ACCESS_KEY_ID: credentials.accessKeyId,
      AWS_SECRET_ACCESS_KEY: credentials.secretAccessKey,
    }
  }

  /** The S3 of this process, which a test can look into. */
  get scripted(): ScriptedS3 | undefined {
    return this.#s3 instanceof ScriptedS3 ? this.#s3 : undefined
  }

  /** All links are up, and all nodes run. */
  async heal(): Promise<void> {
    for (const node of this.nodes) {
      for (const link of Object.values(node.links)) link.set('up')
      node.signal('SIGCONT')
    }
    await this.allServe()
  }

  /** As a service manager sees to it: what has ended is started again. */
  async allServe(): Promise<void> {
    await Promise.all(this.nodes.map((node) => node.serves()))
  }

  /** Writes the keys of the bucket's objects to a file, and the assignments whole. */
  keepBucket(folder: string): void {
    if (this.scripted === undefined) return
    const { objects } = this.scripted
    fs.writeFileSync(
      path.join(folder, 'keys'),
      [...objects].map(([key, { bytes }]) => `${key} ${bytes.length}`).join('\n'),
    )
    for (const [key, { bytes }] of objects)
      if (key.includes('/assign/')) fs.writeFileSync(path.join(folder, `assign-${path.basename(key)}`), bytes)
  }

  async stop(): Promise<void> {
    for (const node of this.nodes) await node.close()
    await this.postgres.stop()
    await this.#s3?.stop()
  }
}

interface Links {
  postgres: Link
  inbound: Link
  bucket?: Link
}

interface NodeCommand {
  entry: string
  args: readonly string[]
  env: Readonly<Record<string, string>>
}

/** One node: a process, its directory, and its links. */
export class TestNode {
  readonly name: string
  readonly directory: string
  readonly links: Links
  readonly #port: number
  readonly #command: NodeCommand
  #child: ChildProcess | undefined
  #output = { stdout: '', stderr: '' }
  #earlier = ''

  constructor(name: string, port: number, links: Links, directory: string, command: NodeCommand) {
    this.name = name
    this.directory = directory
    this.links = links
    this.#port = port
    this.#command = command
  }

  /** Sets its wall clock so far apart from this machine's; it can be done while it runs. */
  shiftClock(ms: number): void {
    fs.mkdirSync(path.dirname(this.directory), { recursive: true })
    fs.writeFileSync(`${this.#clockFile}.new`, String(ms))
    fs.renameSync(`${this.#clockFile}.new`, this.#clockFile)
  }

  get #clockFile(): string {
    return `${this.directory}.clock`
  }

  /** Where clients reach it; other nodes go through the link. */
  get address(): string {
    return `http://127.0.0.1:${this.#port}`
  }

  /** Where other nodes reach it. */
  get advertised(): string {
    return `http://127.0.0.1:${this.links.inbound.port}`
  }

  get stdout(): string {
    return this.#output.stdout
  }

  get stderr(): string {
    return this.#output.stderr
  }

  /** What all its processes have logged. */
  get log(): string {
    return this.#earlier + this.stderr
  }

  get pid(): number {
    return this.#child?.pid ?? 0
  }

  get isRunning(): boolean {
    return this.#child !== undefined && this.#child.exitCode === null && this.#child.signalCode === null
  }

  /** Resolves once it serves. @param waits false: at once */
  async start(waits = true): Promise<void> {
    fs.mkdirSync(this.directory, { recursive: true })
    this.#earlier += this.stderr
    this.#output = { stdout: '', stderr: '' }
    const args = [
      ...['serve', '--port', String(this.#port), '--data-dir', this.directory, '--workers', '1'],
      ...['--advertise', this.advertised],
      ...this.#command.args,
    ]
    const env = {
      ...shellEnv(),
      NODE_COMPILE_CACHE: COMPILE_CACHE,
      NODE_OPTIONS: `--import=${SHIFTED_CLOCK}?file=${encodeURIComponent(this.#clockFile)}`,
      ...this.#command.env,
    }
    const child = spawn(process.execPath, [this.#command.entry, ...args], {
      env,
      stdio: ['ignore', 'pipe', 'pipe'],
    })
    this.#child = child
    child.stdout?.on('data', (text) => {
      this.#output.stdout += text
    })
    child.stderr?.on('data', (text) => {
      this.#output.stderr += text
    })
    if (waits) await this.serves()
  }

  /** @throws with what it has logged, if it ends or does not serve */
  async serves(): Promise<void> {
    for (const until = performance.now() + SERVING_MS_MAX; !this.stderr.includes('"msg":"serving"'); ) {
      // A service manager starts it again.
      if (!this.isRunning && performance.now() < until) await this.start(false)
      if (performance.now() > until)
        throw new Error(`${this.name} does not serve: ${this.#child?.exitCode}\n${this.log.slice(-4_000)}`)
      await sleep(20)
    }
  }

  signal(signal: NodeJS.Signals): void {
    if (this.isRunning) this.#child?.kill(signal)
  }

  /** @returns its exit code; null if a signal ended it */
  async end(signal: NodeJS.Signals): Promise<number | null> {
    const child = this.#child
    if (child === undefined || !this.isRunning) return child?.exitCode ?? null
    const exit = once(child, 'exit')
    child.kill('SIGCONT')
    child.kill(signal)
    const [code] = (await exit) as [number | null]
    return code
  }

  /** Asks it as its operator's commands do. @returns undefined if it refuses, or does not answer in time */
  async asked<T>(what: (client: OwnerClient) => Promise<T>): Promise<T | undefined> {
    const flags = { dataDir: this.directory } as StoreFlags
    const asking = connectNode(flags, systemClock).then(what)
    return await Promise.race([asking, sleep(ASKED_MS_MAX, undefined, { ref: false })]).catch(() => undefined)
  }

  /** How it sees the cluster. */
  status(): Promise<ClusterStatus | undefined> {
    return this.asked((client) => client.cluster())
  }

  /** Its machine is lost. */
  async lose(): Promise<void> {
    await this.end('SIGKILL')
    fs.rmSync(this.directory, { recursive: true, force: true })
  }

  async close(): Promise<void> {
    await this.end('SIGKILL')
    for (const link of Object.values(this.links)) await link.close()
  }

  async request(
    method: string,
    route: string,
    { key, body, headers = {}, msMax = 20_000 }: RequestOptions,
  ): Promise<Answer> {
    try {
      const response = await fetch(`${this.address}${route}`, {
        method,
        headers: {
          'x-api-key': key,
          ...(body === undefined ? {} : { 'content-type': 'application/json' }),
          ...headers,
        },
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
        signal: AbortSignal.timeout(msMax),
      })
      const text = await response.text()
      const isJson = response.headers.get('content-type')?.includes('json') ?? false
      return {
        status: response.status,
        body: isJson ? JSON.parse(text) : { text },
        etag: response.headers.get('etag'),
        by: response.headers.get('cellstore-owner') ?? this.advertised,
      }
    } catch {
      return { status: 0, body: {}, etag: null, by: '' }
    }
  }
}

interface RequestOptions {
  key: string
  body?: unknown
  headers?: Record<string, string>
  msMax?: number
}
