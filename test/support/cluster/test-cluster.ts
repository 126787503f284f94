import { type ChildProcess, spawn } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import fs from 'node:fs'
import path from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { ENTRY } from '../cli/workplace.ts'
import { freePort } from '../free-port.ts'
import { shellEnv } from '../package/run.ts'
import { TestPostgres } from '../postgres.ts'
import { endpointOfTests } from '../s3/endpoint-of-tests.ts'
import type { LocalS3 } from '../s3/s3rver.ts'
import { ScriptedS3 } from '../s3/scripted-s3.ts'
import { tempDirectory } from '../temp-directory.ts'
import { Link } from './link.ts'

const SERVING_MS_MAX = 90_000
const KEY = /cell_sk_[0-9A-Za-z]{49}/

export interface Answer {
  /** 0 if there was none. */
  status: number
  body: Record<string, unknown>
}

/** A real PostgreSQL, a bucket, and real nodes on 127.0.0.1; each node's ways to the others are links that a test can cut. */
export class TestCluster {
  readonly postgres: TestPostgres
  readonly nodes: TestNode[] = []
  /** The key that the first node printed. */
  key = ''
  readonly #bucket: LocalS3
  readonly #prefix = `cluster-${randomUUID()}`
  readonly #root = tempDirectory('cellstore-cluster')
  readonly #flags: readonly string[]

  private constructor(postgres: TestPostgres, bucket: LocalS3, flags: readonly string[]) {
    this.postgres = postgres
    this.#bucket = bucket
    this.#flags = flags
  }

  /** @param flags of each node, beside those that make it one of the cluster */
  static async start(nodes: number, flags: readonly string[] = []): Promise<TestCluster> {
    const bucket = await endpointOfTests(() => ScriptedS3.start())
    const cluster = new TestCluster(await TestPostgres.start(), bucket, flags)
    for (let i = 0; i < nodes; i++) await cluster.add()
    return cluster
  }

  /** Starts one more node, with an empty directory. */
  async add(): Promise<TestNode> {
    const name = `n${this.nodes.length + 1}`
    const port = await freePort()
    const s3 = await Link.to(Number(new URL(this.#bucket.endpoint).port))
    const links = { postgres: await Link.to(this.postgres.port), bucket: s3, inbound: await Link.to(port) }
    const { accessKeyId, secretAccessKey } = this.#bucket.credentials
    const query = new URLSearchParams({
      endpoint: `http://127.0.0.1:${s3.port}`,
      region: 'us-east-1',
      path_style: 'true',
    })
    const node = new TestNode(name, port, links, path.join(this.#root, name), {
      args: ['--cluster', this.postgres.url('postgres', 'cellstore', links.postgres.port), ...this.#flags],
      env: {
        CELLSTORE_OBJECT_STORE: `s3://${this.#bucket.bucket}/${this.#prefix}?${query}`,
        AWS_ACCESS_KEY_ID: accessKeyId,
        AWS_SECRET_ACCESS_KEY: secretAccessKey,
      },
    })
    this.nodes.push(node)
    await node.start()
    this.key ||= KEY.exec(node.stdout)?.[0] ?? ''
    return node
  }

  /** All links are up, and all nodes run. */
  async heal(): Promise<void> {
    for (const node of this.nodes) {
      for (const link of Object.values(node.links)) link.set('up')
      node.signal('SIGCONT')
    }
    for (const node of this.nodes) if (!node.isRunning) await node.start()
  }

  /** Writes the keys of the bucket's objects to a file, and the assignments whole. */
  keepBucket(folder: string): void {
    if (!(this.#bucket instanceof ScriptedS3)) return
    const { objects } = this.#bucket
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
    await this.#bucket.stop()
  }
}

interface NodeCommand {
  args: readonly string[]
  env: Readonly<Record<string, string>>
}

/** One node: a process, its directory, and its links. */
export class TestNode {
  readonly name: string
  readonly directory: string
  readonly links: { postgres: Link; bucket: Link; inbound: Link }
  readonly #port: number
  readonly #command: NodeCommand
  #child: ChildProcess | undefined
  #output = { stdout: '', stderr: '' }
  #earlier = ''

  constructor(name: string, port: number, links: TestNode['links'], directory: string, command: NodeCommand) {
    this.name = name
    this.directory = directory
    this.links = links
    this.#port = port
    this.#command = command
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
    const env = { ...shellEnv(), ...this.#command.env }
    const child = spawn(process.execPath, [ENTRY, ...args], { env, stdio: ['ignore', 'pipe', 'pipe'] })
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
  ): Promise<Answer & { etag: string | null }> {
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
      }
    } catch {
      return { status: 0, body: {}, etag: null }
    }
  }
}

interface RequestOptions {
  key: string
  body?: unknown
  headers?: Record<string, string>
  msMax?: number
}
