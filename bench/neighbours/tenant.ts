import http from 'node:http'
import net from 'node:net'
import { setTimeout } from 'node:timers/promises'
import { Random } from '../../test/support/random.ts'

export interface Reply {
  status: number
  /** `ok`, or the problem's code. */
  code: string
  /** Undefined if the answer is large. */
  json: unknown
}

const KEPT_BYTES_MAX = 65_536
const SOCKETS_MAX = 800
const MUST_TRIES = 60
const MUST_PAUSE_MS = 500

/** An attacker: an account's key, and as many connections as it likes. */
export class Tenant {
  readonly random: Random
  /** How often it was answered what. */
  answers = new Map<string, number>()
  /** While it prepares: it idles between its steps, and the server closes a connection just when it is used again. */
  asksAgain = false
  readonly #port: number
  readonly #key: string
  readonly #address: string
  readonly #ownerKey: string
  readonly #others: Tenant[] = []
  readonly #agent = new http.Agent({ keepAlive: true, maxSockets: SOCKETS_MAX })
  readonly #sockets = new Set<net.Socket>()

  constructor(port: number, key: string, seed: number, address = '127.0.0.1', ownerKey = '') {
    this.#port = port
    this.#key = key
    this.#address = address
    this.#ownerKey = ownerKey
    this.random = new Random(seed)
  }

  count(answer: string): void {
    this.answers.set(answer, (this.answers.get(answer) ?? 0) + 1)
  }

  /** @param body sent as it is if it is text or bytes, otherwise as JSON */
  ask(method: string, path: string, body?: unknown, headers: Record<string, string> = {}): Promise<Reply> {
    const isSentAsItIs = body === undefined || typeof body === 'string' || Buffer.isBuffer(body)
    const text = isSentAsItIs ? body : JSON.stringify(body)
    return new Promise((resolve, reject) => {
      const request = http.request(
        {
          port: this.#port,
          host: '127.0.0.1',
          localAddress: this.#address,
          agent: this.#agent,
          method,
          path: `/v1${path}`,
          headers: {
            'x-api-key': this.#key,
            ...(text === undefined
              ? {}
              : { 'content-type': 'application/json', 'content-length': Buffer.byteLength(text) }),
            ...headers,
          },
        },
        (response) => {
          const chunks: Buffer[] = []
          let bytes = 0
          response.on('data', (chunk: Buffer) => {
            bytes += chunk.length
            if (bytes <= KEPT_BYTES_MAX) chunks.push(chunk)
          })
          response.on('error', reject)
          response.on('end', () => {
            const json = bytes <= KEPT_BYTES_MAX ? JSON.parse(String(Buffer.concat(chunks))) : undefined
            const status = response.statusCode ?? 0
            const code = status < 400 ? 'ok' : String(json?.code)
            this.count(`${status} ${code}`)
            resolve({ status, code, json })
          })
        },
      )
      request.on('error', (error: NodeJS.ErrnoException) => {
        const wasClosed = request.reusedSocket && error.code === 'ECONNRESET'
        if (this.asksAgain && wasClosed) resolve(this.ask(method, path, body, headers))
        else reject(error)
      })
      request.end(text)
    })
  }

  sql(cell: string, sql: string, params?: unknown): Promise<Reply> {
    return this.ask('POST', `/databases/${cell}/sql`, { sql, params })
  }

  /** Like `sql`, for what the attack builds on: it waits until the node takes it. */
  async must(cell: string, sql: string, params?: unknown): Promise<void> {
    for (let tries = 1; ; tries++) {
      const { status, json } = await this.sql(cell, sql, params)
      if (status === 200) return
      if ((status !== 429 && status !== 503) || tries === MUST_TRIES)
        throw new Error(`${sql.slice(0, 80)}: ${JSON.stringify(json)}`)
      await pause(MUST_PAUSE_MS)
    }
  }

  /** Other accounts of the same attacker. What they are answered counts as this one's. */
  async newTenants(count: number): Promise<Tenant[]> {
    const headers = { 'x-api-key': this.#ownerKey }
    const made = Array.from({ length: count }, async () => {
      const { json: account } = await this.ask('POST', '/accounts', {}, headers)
      const keys = `/accounts/${(account as { id: string }).id}/api-keys`
      const { json: created } = await this.ask('POST', keys, {}, headers)
      const other = new Tenant(
        this.#port,
        (created as { key: string }).key,
        this.random.below(2 ** 31),
        this.#address,
      )
      other.answers = this.answers
      return other
    })
    const others = await Promise.all(made)
    this.#others.push(...others)
    return others
  }

  async newCells(count: number): Promise<string[]> {
    const made = await Promise.all(Array.from({ length: count }, () => this.ask('POST', '/databases')))
    return made.map(({ json }) => (json as { id: string }).id)
  }

  /** The bytes of a request, for a socket of one's own. */
  raw(method: string, path: string, body: string, length = Buffer.byteLength(body)): string {
    const head = `${method} /v1${path} HTTP/1.1\r\nHost: x\r\nx-api-key: ${this.#key}\r\nContent-Type: application/json\r\nContent-Length: ${length}\r\n\r\n`
    return head + body
  }

  connect(): net.Socket {
    const socket = net.connect({ port: this.#port, host: '127.0.0.1', localAddress: this.#address })
    socket.on('error', () => {})
    this.#sockets.add(socket)
    socket.on('close', () => this.#sockets.delete(socket))
    return socket
  }

  close(): void {
    for (const other of this.#others) other.close()
    this.#agent.destroy()
    for (const socket of this.#sockets) socket.destroy()
  }
}

/** Repeats a step in several lanes at once. A step that fails is counted, and the next one begins. */
export async function repeat(
  tenant: Tenant,
  signal: AbortSignal,
  lanes: number,
  step: (turn: number) => Promise<unknown>,
): Promise<void> {
  let turn = 0
  const lane = async () => {
    while (!signal.aborted) {
      try {
        await step(turn++)
      } catch {
        if (signal.aborted) return
        tenant.count('hung up')
        await pause(20, signal)
      }
    }
  }
  await Promise.all(Array.from({ length: lanes }, lane))
}

/** Resolves after a time, or when it is told to stop. */
export async function pause(ms: number, signal?: AbortSignal): Promise<void> {
  await setTimeout(ms, undefined, signal && { signal }).catch(() => {})
}
