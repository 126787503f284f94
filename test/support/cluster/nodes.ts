import fs from 'node:fs'
import path from 'node:path'
import { setTimeout } from 'node:timers/promises'
import { onTestFinished } from 'vitest'
import type { ClusterStatus } from '../../../src/cluster/cluster-status.ts'
import { type ServedNode, Workplace } from '../cli/workplace.ts'
import { TestPostgres } from '../postgres.ts'
import { until } from '../until.ts'

/** Nodes of one cluster, as real processes with directories of their own, on a real PostgreSQL and a folder. */
export class ClusterOfTest {
  readonly place: Workplace
  readonly postgres: TestPostgres
  readonly url: string
  readonly nodes = new Map<string, ServedNode>()
  key = ''

  private constructor(place: Workplace, postgres: TestPostgres, url: string) {
    this.place = place
    this.postgres = postgres
    this.url = url
  }

  /** @param database its own one, which can be dropped */
  static async start(database?: string): Promise<ClusterOfTest> {
    const postgres = await TestPostgres.start()
    onTestFinished(() => postgres.stop())
    // Each node has a process for cells, and the machine has few processors.
    const url = database === undefined ? postgres.url() : await postgres.newDatabase(database)
    return new ClusterOfTest(new Workplace({ CELLSTORE_WORKERS: '1' }), postgres, url)
  }

  /** Starts a node in the directory of this name, and waits until it serves. */
  async serve(name: string, ...args: string[]): Promise<ServedNode> {
    const objects = `file://${this.place.objects}`
    const place = ['--data-dir', name, '--object-store', objects, '--cluster', this.url]
    const node = await this.place.serve(...place, ...args)
    this.nodes.set(name, node)
    this.key ||= node.key
    return node
  }

  node(name: string): ServedNode {
    const node = this.nodes.get(name)
    if (node === undefined) throw new Error(`There is no node ${name}`)
    return node
  }

  status(name: string): Promise<ClusterStatus> {
    return this.place.json<ClusterStatus>('cluster', 'status', '--data-dir', name)
  }

  id(name: string): string {
    const file = path.join(this.place.folder, name, 'node.json')
    return (JSON.parse(fs.readFileSync(file, 'utf8')) as { node_id: string }).node_id
  }

  async rangesOf(name: string, asked = name): Promise<number> {
    const { nodes } = await this.status(asked)
    return nodes.find(({ id }) => id === this.id(name))?.ranges ?? 0
  }

  /** Waits until all nodes have ranges. */
  async untilLevel(name: string): Promise<void> {
    await until(
      async () => (await this.status(name)).nodes.every(({ ranges }) => ranges > 500),
      'all nodes have ranges',
    )
  }

  /** A request that is sent again as long as nothing has run. */
  async request(
    name: string,
    method: string,
    path: string,
    body?: object,
  ): Promise<{ status: number; body: Record<string, unknown> }> {
    for (let tries = 0; ; tries++) {
      const answer = await this.node(name).request(method, path, body, this.key)
      if (answer.status !== 503 || tries === 60) return answer
      await setTimeout(500)
    }
  }

  /** Makes cells through all nodes in turn, each with an entry. @returns their ids */
  async cells(count: number): Promise<string[]> {
    const names = [...this.nodes.keys()]
    const ids: string[] = []
    for (let i = 0; i < count; i++) {
      const name = names[i % names.length] as string
      const { body } = await this.request(name, 'POST', '/v1/databases', { name: `cell-${i}` })
      const id = String(body['id'])
      await this.request(name, 'PUT', `/v1/databases/${id}/kv/a`, { value: `value ${i}` })
      ids.push(id)
    }
    return ids
  }

  /** What the cells have, as one node answers. */
  async values(name: string, ids: readonly string[]): Promise<unknown[]> {
    const values: unknown[] = []
    for (const id of ids)
      values.push((await this.request(name, 'GET', `/v1/databases/${id}/kv/a`)).body['value'])
    return values
  }

  /** Waits until what all cells have committed is in the object store. */
  async untilShipped(ids: readonly string[]): Promise<void> {
    for (const id of ids)
      await this.request([...this.nodes.keys()][0] as string, 'POST', `/v1/databases/${id}/backup`)
  }
}

export const valuesOf = (count: number): string[] => Array.from({ length: count }, (_, i) => `value ${i}`)
