import fs from 'node:fs'
import type { AddressInfo } from 'node:net'
import os from 'node:os'
import path from 'node:path'
import { FileObjectStore } from '../../../src/backup/object-store/file/file-object-store.ts'
import type { HandlerOptions } from '../../../src/http/handler-options.ts'
import { NodeServer, type NodeServerOptions } from '../../../src/http/server/node-server.ts'
import type { CellStore } from '../../../src/store/cell-store.ts'
import type { StoreOptions } from '../../../src/store/settings/store-options.ts'
import { GatedStore } from '../backup/object-store-decorators.ts'
import { perTest } from '../per-test.ts'
import { StoreDirectory } from '../store-directory.ts'
import type { RawReply } from './raw-exchange.ts'
import { SteppedClock } from './stepped-clock.ts'
import type { Transport, TransportFactory } from './transports.ts'

/** What a test asks. Strings of `path` and `body` may hold `{cell}` and the other names of {@link Bench.fill}. */
export interface Ask {
  method: string
  path: string
  headers?: Record<string, string>
  /** Sent as JSON. */
  body?: unknown
  /** Sent as it is, in place of `body`. */
  raw?: string | Uint8Array
  /** The key to send; null sends none. By default the account's own, and for accounts an owner's. */
  key?: string | null
}

export interface Reply extends RawReply {
  json: unknown
}

export interface BenchOptions {
  store?: StoreOptions
  handler?: HandlerOptions
}

/** What of `/v1` takes an owner's key, and is of the key's own account or of the node. */
const OWNERS = /^\/v1\/status(\?|$)|\/backups\/(un)?pin(\?|$)/

/** A real store on disk with a folder as its object store, two accounts, and one transport over it. */
export class Bench {
  readonly clock = new SteppedClock()
  readonly directory = fs.mkdtempSync(path.join(os.tmpdir(), 'cellstore-http-'))
  readonly data = new StoreDirectory(path.join(this.directory, 'data'))
  readonly objectStore = new GatedStore(new FileObjectStore({ root: path.join(this.directory, 'objects') }))
  readonly logged: Record<string, unknown>[] = []
  store!: CellStore
  accountId!: string
  key!: string
  strangerId!: string
  strangerKey!: string
  /** The cell that `{cell}` stands for. */
  cell!: string
  readonly #made = new Map<string, string>()
  #transport!: Transport
  readonly #servers: NodeServer[] = []
  readonly #logger = { error: (fields: object) => void this.logged.push(fields as Record<string, unknown>) }

  /** One for each test: see {@link perTest}. */
  static perTest(transport: TransportFactory, options: BenchOptions = {}): Bench {
    return perTest(
      () => Bench.open(transport, options),
      (bench) => bench.close(),
    )
  }

  static async open(transport: TransportFactory, options: BenchOptions = {}): Promise<Bench> {
    const bench = new Bench()
    const { clock, objectStore } = bench
    bench.store = await bench.data.create({ clock, objectStore, ...options.store })
    bench.accountId = bench.store.accounts.create().id
    bench.key = bench.store.apiKeys.create(bench.accountId).key
    bench.strangerId = bench.store.accounts.create().id
    bench.strangerKey = bench.store.apiKeys.create(bench.strangerId).key
    await bench.serve(bench.store, transport, options.handler)
    bench.newCell()
    return bench
  }

  /** Serves a store from here on; the one before is no longer the test's concern. */
  async serve(store: CellStore, transport: TransportFactory, options: HandlerOptions = {}): Promise<void> {
    this.store = store
    this.#transport = await transport(store, { logger: this.#logger, ...options })
  }

  /** Starts a server of our own on a port, until the bench is closed. */
  async listen(options: NodeServerOptions = {}): Promise<{ server: NodeServer; port: number }> {
    const server = new NodeServer(this.store, { logger: this.#logger, ...options })
    this.#servers.push(server)
    const { port } = (await server.start({ host: '127.0.0.1', port: 0 })) as AddressInfo
    return { server, port }
  }

  /** The head of a request as it is sent, with the account's key. */
  head(method: string, path: string, ...headers: string[]): string {
    const lines = [`${method} ${this.fill(path)} HTTP/1.1`, 'Host: x', `x-api-key: ${this.key}`]
    return [...lines, ...headers, '', ''].join('\r\n')
  }

  /** Opens the closed store again, or the one in the object store if its directory is gone. */
  reopen(options: StoreOptions = {}): Promise<CellStore> {
    const { clock, objectStore } = this
    return this.data.openOrCreate({ clock, objectStore, ...options })
  }

  newCell(accountId = this.accountId): string {
    this.cell = this.store.createCell({ accountId }).id
    return this.cell
  }

  /** Where the cell's files are, for tests that lose or damage them; safe while the cell is not open. */
  get cellDirectory(): string {
    return this.data.paths.cell(this.cell).directory
  }

  /** The folder of the cell's backups. */
  get backupDirectory(): string {
    return path.join(this.directory, 'objects', 'snapshots', this.cell)
  }

  /** Puts ids in the place of their names: `{cell}`, and those of {@link Bench.#madeOf}, made when first asked for. */
  fill(text: string): string {
    return text.replaceAll(/\{([a-z]+)\}/g, (whole, name: string) => {
      if (name === 'cell') return this.cell
      const made = this.#made.get(name) ?? this.#madeOf(name)
      if (made === undefined) return whole
      this.#made.set(name, made)
      return made
    })
  }

  /** The next use of the name makes another one. */
  forget(name: string): void {
    this.#made.delete(name)
  }

  #madeOf(name: string): string | undefined {
    const { store, accountId, strangerId } = this
    switch (name) {
      case 'catalog':
        return store.id
      case 'stranger':
        return store.createCell({ accountId: strangerId }).id
      case 'nobody':
        return store.createCell().id
      case 'strangerkey':
        return store.apiKeys.create(strangerId).id
      case 'keyid':
        return store.apiKeys.create(accountId, { name: 'rotated' }).id
      case 'account':
        return store.accounts.create().id
      case 'ownerkey':
        return store.apiKeys.create(store.accounts.create().id, { access: 'owner' }).key
      case 'ownkey':
        return store.apiKeys.create(accountId, { access: 'owner' }).key
      case 'strangerownkey':
        return store.apiKeys.create(strangerId, { access: 'owner' }).key
      case 'writekey':
        return this.key
      case 'readkey':
        return store.apiKeys.create(accountId, { access: 'read' }).key
      case 'deleted': {
        const { id } = store.createCell({ accountId })
        store.deleteCell(id)
        return id
      }
      default:
        return undefined
    }
  }

  /** A key of the account with the access that the route needs; for accounts, one of another account. */
  keyFor(path: string): string {
    if (path.startsWith('/v1/accounts')) return this.fill('{ownerkey}')
    return OWNERS.test(path) ? this.fill('{ownkey}') : this.key
  }

  /** The same of the other account. */
  strangerKeyFor(path: string): string {
    return OWNERS.test(path) ? this.fill('{strangerownkey}') : this.strangerKey
  }

  async send(ask: Ask): Promise<Reply> {
    const { method, headers = {}, body, raw, key = this.keyFor(ask.path) } = ask
    const sent = raw ?? (body === undefined ? undefined : this.fill(JSON.stringify(body)))
    const reply = await this.#transport.send({
      method,
      path: this.fill(ask.path),
      headers: withoutEmpty({
        'x-api-key': this.fill(key ?? ''),
        'content-type': sent === undefined ? '' : 'application/json',
        ...headers,
      }),
      ...(sent === undefined ? {} : { body: sent }),
    })
    const isJson = reply.text !== '' && /[/+]json/.test(reply.headers.get('content-type') ?? '')
    return { ...reply, json: isJson ? JSON.parse(reply.text) : undefined }
  }

  async close(): Promise<void> {
    this.objectStore.open()
    await Promise.all(this.#servers.map((server) => server.stop({ drainMs: 0 })))
    await this.#transport.close()
    try {
      await this.data.close()
    } finally {
      fs.rmSync(this.directory, { recursive: true, force: true })
    }
  }
}

/** A header given as '' is not sent. */
function withoutEmpty(headers: Record<string, string>): Record<string, string> {
  return Object.fromEntries(Object.entries(headers).filter(([, value]) => value !== ''))
}
