import fs from 'node:fs'
import path from 'node:path'
import type { Load } from '../../http-load.ts'
import { Client } from '../../http-process.ts'
import type { Outcome } from '../results.ts'
import type { Contender, Turn } from '../turns.ts'
import { peer as bare, peerInTwoProcesses } from './bare.ts'
import { peer as cellstore } from './cellstore.ts'
import { type Asked, ask, type HttpPeer, type HttpServer } from './http-peer.ts'
import { peer as rqlite } from './rqlite.ts'
import { peer as sqld } from './sqld.ts'
import { peer as workerd } from './workerd.ts'

const CONNECTIONS = 32
/** Of a database: what `$k` can be. */
export const KEYS = 1_000

const HTTP_PEERS: Record<string, HttpPeer> = {
  cellstore,
  bare,
  'bare, in two processes': peerInTwoProcesses,
  rqlite,
  workerd,
  sqld,
}

/** A server that runs, and a process that asks it. */
export class ServerContender implements Contender {
  readonly name: string
  readonly version: string
  readonly #peer: HttpPeer
  readonly #directory: string
  #client = new Client()
  server: HttpServer

  private constructor(name: string, peer: HttpPeer, directory: string, server: HttpServer) {
    this.name = name
    this.version = peer.version()
    this.#peer = peer
    this.#directory = directory
    this.server = server
  }

  /** @throws why it can't take part */
  static async start(name: string, directory: string): Promise<ServerContender> {
    const peer = HTTP_PEERS[name] as HttpPeer
    fs.mkdirSync(directory, { recursive: true })
    return new ServerContender(name, peer, directory, await peer.start(directory))
  }

  get pid(): number {
    return this.server.pid
  }

  complaint(): string {
    return this.server.complaint?.() ?? ''
  }

  async restart(): Promise<void> {
    await this.server.stop()
    this.server = await this.#peer.start(this.#directory)
  }

  async stop(): Promise<void> {
    this.#client.stop()
    await this.server.stop()
  }

  /** Asks the same over and over; several requests take turns. */
  async load(
    asked: readonly Asked[],
    { turnMs, perSecond }: { turnMs: number; perSecond?: number },
  ): Promise<Turn> {
    const { port, headers } = this.server
    const [{ method, body }] = asked as [Asked]
    const each = asked.flatMap(({ path: place, host }) =>
      place.includes('$k')
        ? Array.from({ length: KEYS }, (_, k) => ({ place: place.replace('$k', String(k)), host }))
        : [{ place, host }],
    )
    const load: Load = {
      port,
      method,
      paths: each.map(({ place }) => place),
      headers,
      connections: CONNECTIONS,
      durationMs: turnMs,
    }
    if (asked[0]?.host !== undefined) load.hosts = each.map(({ host = '' }) => host)
    if (body !== undefined) load.body = body
    if (perSecond !== undefined) load.perSecond = perSecond
    try {
      const { rate, count, median, p99 } = await this.#client.run(load)
      return { value: rate, count, p50: median, p99 }
    } catch (error) {
      // It has ended, since its other connections still asked.
      this.#client.stop()
      this.#client = new Client()
      throw error
    }
  }
}

/** Starts all that can be had, and says why others can't. */
export async function startServers(
  directory: string,
  hasMany: boolean,
): Promise<{ contenders: ServerContender[]; absent: Record<string, Outcome> }> {
  const contenders: ServerContender[] = []
  const absent: Record<string, Outcome> = {}
  for (const [name, { single }] of Object.entries(HTTP_PEERS)) {
    try {
      if (hasMany && single !== undefined) throw new Error(single)
      contenders.push(await ServerContender.start(name, path.join(directory, name)))
    } catch (error) {
      absent[name] = { absent: (error as Error).message }
    }
  }
  return { contenders, absent }
}

/** An entry that was put must be there. */
export async function assertKeeps(server: HttpServer, database: string): Promise<void> {
  await ask(server, server.put(database, 'key:$k'))
  const answer = await ask(server, server.get(database, 'key:$k'))
  if (!answer.includes('vvvv')) throw new Error(`it does not give what was put: ${answer.slice(0, 200)}`)
}
