import { spawn } from 'node:child_process'
import { once } from 'node:events'
import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { pathToFileURL } from 'node:url'
import { freePort } from '../../test/support/free-port.ts'
import { TestPostgres } from '../../test/support/postgres.ts'
import { environment, type Served, startCellstore } from '../http-process.ts'

const ENTRY = path.join(import.meta.dirname, '..', '..', 'dist', 'cellstore.js')

export interface BenchNode extends Served {
  readonly address: string
  readonly directory: string
}

/** Three nodes of `cellstore serve --cluster` with default settings, a PostgreSQL that syncs, and a folder for the bucket. */
export class BenchCluster {
  readonly nodes: BenchNode[] = []
  readonly #postgres: TestPostgres
  readonly #root: string

  private constructor(postgres: TestPostgres, root: string) {
    this.#postgres = postgres
    this.#root = root
  }

  /** @param flags of each node, beside those that make it one of the cluster */
  static async start(...flags: string[]): Promise<BenchCluster> {
    const root = fs.mkdtempSync(path.join(os.tmpdir(), 'cellstore-bench-cluster-'))
    const cluster = new BenchCluster(await TestPostgres.start({ syncs: true }), root)
    try {
      for (const name of ['first', 'second', 'third']) await cluster.#add(name, flags)
      // The first node has all ranges otherwise, and gives them away while something is measured.
      await cluster.#command(cluster.node(0), 'balance')
      return cluster
    } catch (error) {
      await cluster.stop()
      throw error
    }
  }

  async #add(name: string, flags: readonly string[]): Promise<void> {
    const directory = path.join(this.#root, name)
    fs.mkdirSync(directory)
    const port = await freePort()
    const address = `http://127.0.0.1:${port}`
    const served = await startCellstore(
      directory,
      [
        ...['--port', String(port), '--advertise', address, '--cluster', this.#postgres.url()],
        ...['--object-store', pathToFileURL(path.join(this.#root, 'bucket')).href, ...flags],
      ],
      path.join(this.#root, `${name}.log`),
    )
    const key = served.key || this.key
    this.nodes.push({ ...served, key, address, directory })
  }

  /** The key that the first node made. */
  get key(): string {
    return this.nodes[0]?.key ?? ''
  }

  node(index: number): BenchNode {
    const node = this.nodes[index]
    if (node === undefined) throw new Error(`There is no node ${index}.`)
    return node
  }

  /** Empties a node, and resolves once it has no cells. */
  async drain(node: BenchNode): Promise<void> {
    await this.#command(node, 'drain', node.address)
  }

  async #command({ directory }: BenchNode, ...args: string[]): Promise<void> {
    const flags = ['--data-dir', path.join(directory, 'data'), '--json']
    const child = spawn(process.execPath, [ENTRY, 'cluster', ...args, ...flags], {
      stdio: ['ignore', 'ignore', 'inherit'],
      env: environment,
    })
    const [code] = await once(child, 'exit')
    if (code !== 0) throw new Error(`cellstore cluster ${args.join(' ')} ended with ${code}.`)
  }

  async stop(): Promise<void> {
    for (const { pid } of this.nodes) kill(pid, 'SIGKILL')
    await this.#postgres.stop()
    // Processes that were killed may have children that still write for a moment.
    fs.rmSync(this.#root, { recursive: true, force: true, maxRetries: 20, retryDelay: 100 })
  }
}

/** Sends a signal to a node. One that was killed before gets none. */
export function kill(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error
  }
}
