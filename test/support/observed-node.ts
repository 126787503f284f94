import path from 'node:path'
import { pathToFileURL } from 'node:url'
import { onTestFinished } from 'vitest'
import { systemClock } from '../../src/base/clock.ts'
import { createLog } from '../../src/cli/log.ts'
import { RunningNode } from '../../src/cli/serve/running-node.ts'
import type { ServeFlags } from '../../src/cli/serve/serve-flags.ts'
import { tempDirectory } from './temp-directory.ts'

/** A line of the log, as an operator gets it. */
export interface LogLine {
  level: number
  msg: string
  [field: string]: unknown
}

interface Reply {
  status: number
  text: string
  body: Record<string, unknown>
}

/** A node in this process, with all that it logs, and its metrics. */
export class ObservedNode {
  readonly lines: LogLine[] = []
  readonly dataDir: string
  address = ''
  key = ''

  private constructor(dataDir: string) {
    this.dataDir = dataDir
  }

  /** @param workers 0: the node's own process runs the cells */
  static async start(workers: number, given: Partial<ServeFlags> = {}): Promise<ObservedNode> {
    const root = tempDirectory('cellstore-observed')
    const node = new ObservedNode(path.join(root, 'data'))
    const flags = {
      dataDir: node.dataDir,
      objectStore: pathToFileURL(path.join(root, 'objects')).href,
      workers,
      drain: 10_000,
      objectStoreWait: 1_000,
      durability: 'relaxed',
      host: '127.0.0.1',
      port: 0,
      metricsHost: '127.0.0.1',
      metricsPort: 0,
      slow: 500,
      snapshotEvery: null,
      incrementalEvery: null,
      drillEvery: null,
      logLevel: 'debug',
      json: true,
      ...given,
    } as ServeFlags
    const log = createLog('debug', { write: (text) => void node.lines.push(JSON.parse(text)) })
    const running = await RunningNode.start(flags, {
      clock: systemClock,
      log,
      accessLog: log,
      rootKey: undefined,
      print: (text) => node.#announced(JSON.parse(text)),
    })
    onTestFinished(() => running.stop({ drainMs: 10_000 }))
    return node
  }

  #announced({ address, first_key }: { address: string; first_key: { key: string } | null }): void {
    this.address = address
    this.key = first_key?.key ?? ''
  }

  async request(
    method: string,
    route: string,
    body?: unknown,
    headers: Record<string, string> = {},
  ): Promise<Reply> {
    const response = await fetch(`${this.address}${route}`, {
      method,
      headers: { 'x-api-key': this.key, 'content-type': 'application/json', ...headers },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    })
    const text = await response.text()
    const isJson = response.headers.get('content-type')?.includes('json') === true
    return { status: response.status, text, body: isJson ? JSON.parse(text) : {} }
  }

  async newCell(name?: string): Promise<string> {
    const { body } = await this.request('POST', '/v1/databases', { name })
    return body['id'] as string
  }

  /** Where metrics are served. */
  get metricsAddress(): string {
    return String(this.lines.find(({ msg }) => msg === 'metrics are served')?.['address'])
  }

  async metrics(): Promise<string> {
    const response = await fetch(this.metricsAddress)
    if (response.status !== 200) throw new Error(`Metrics: ${response.status}`)
    return await response.text()
  }

  logged(message: string): LogLine[] {
    return this.lines.filter(({ msg }) => msg === message)
  }
}
