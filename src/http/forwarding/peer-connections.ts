import http, { type ClientRequest, type IncomingMessage, type RequestOptions } from 'node:http'
import https from 'node:https'
import type { Socket } from 'node:net'
import type { Clock, Timer } from '../../base/clock.ts'

/** Node.js closes what idles for 5 s at its other end: a request that meets that is lost. */
const IDLE_MS = 3_000
const FREE_MAX = 256
/** How often the connections are looked at. */
const LOOK_MS = 1_000
/** A node that takes longer to accept a connection is taken for unreachable. */
const CONNECT_MS = 1_000
/** A node at work sends an interim response every 5 s. */
const HEAD_SILENCE_MS = 15_000
/** A stream of changes says something every 15 s. */
const BODY_SILENCE_MS = 40_000

/** A request to another node was not answered, or not to its end. */
export class PeerLost extends Error {
  override readonly name = 'PeerLost'
  /** Whether the other node may have begun with it. */
  readonly mayHaveRun: boolean

  constructor(mayHaveRun: boolean, cause: unknown) {
    super('The other node was lost.', { cause })
    this.mayHaveRun = mayHaveRun
  }
}

interface Underway {
  request: ClientRequest
  socket: Socket | undefined
  /** Nothing is sent before there is a connection. */
  isConnected: boolean
  response: IncomingMessage | undefined
  /** Bytes in both directions at the last look, … */
  bytes: number
  /** … and since when there were no more. */
  since: number
}

/** Connections to the other nodes that are kept open, and the requests on them. None of these waits forever (invariant 13). */
export class PeerConnections {
  readonly #clock: Clock
  readonly #agents: Readonly<Record<string, http.Agent>>
  readonly #underway = new Set<Underway>()
  #timer: Timer | undefined

  constructor(clock: Clock) {
    // Each belongs to a client's connection, and those are bounded: an account that is slow must hold up no others.
    const options = { keepAlive: true, maxFreeSockets: FREE_MAX, timeout: IDLE_MS }
    this.#clock = clock
    this.#agents = { 'http:': new http.Agent(options), 'https:': new https.Agent(options) }
  }

  /** Requests that are not answered to their end. */
  get underway(): number {
    return this.#underway.size
  }

  /**
   * Begins a request; its caller writes the body.
   *
   * @param address `http://10.0.0.2:8787`
   * @returns the request, and its answer's head; that rejects with {@link PeerLost}
   */
  begin(
    address: string,
    options: RequestOptions,
  ): { request: ClientRequest; answer: Promise<IncomingMessage> } {
    let isAnswered = false
    const { protocol, hostname, port } = new URL(address)
    const { request: begin } = protocol === 'https:' ? https : http
    const host = hostname.replace(/^\[(.*)\]$/, '$1')
    const request = begin({ ...options, agent: this.#agents[protocol] as http.Agent, host, port })
    const entry: Underway = {
      request,
      socket: undefined,
      isConnected: false,
      response: undefined,
      bytes: 0,
      since: this.#clock.monotonic(),
    }
    const answer = new Promise<IncomingMessage>((resolve, reject) => {
      request.once('socket', (socket) => {
        entry.socket = socket
        if (!socket.connecting) entry.isConnected = true
        else
          socket.once(protocol === 'https:' ? 'secureConnect' : 'connect', () => {
            entry.isConnected = true
          })
      })
      request.once('response', (response) => {
        entry.response = response
        entry.since = this.#clock.monotonic()
        // Its reader is told; without a listener, an error would end the process.
        response.on('error', () => {})
        isAnswered = true
        resolve(response)
      })
      request.on('error', (error) => reject(new PeerLost(entry.isConnected, error)))
      request.once('close', () => {
        this.#underway.delete(entry)
        // An error takes its stack, which costs more than the rest of this.
        if (!isAnswered) reject(new PeerLost(entry.isConnected, undefined))
      })
    })
    this.#underway.add(entry)
    this.#timer ??= this.#clock.setTimer(this.#look, LOOK_MS)
    return { request, answer }
  }

  /** Ends what is under way, and closes all connections. */
  close(): void {
    this.#timer?.cancel()
    for (const { request } of this.#underway) request.destroy()
    for (const agent of Object.values(this.#agents)) agent.destroy()
  }

  readonly #look = (): void => {
    const now = this.#clock.monotonic()
    for (const entry of this.#underway) {
      const bytes = entry.socket === undefined ? 0 : entry.socket.bytesRead + entry.socket.bytesWritten
      // What waits here for its client is no silence of the other node.
      const isWaiting = (entry.response?.readableLength ?? 0) > 0
      if (bytes !== entry.bytes || isWaiting) Object.assign(entry, { bytes, since: now })
      else if (now - entry.since >= silenceOf(entry)) entry.request.destroy(new Error('The node is silent.'))
    }
    this.#timer = this.#underway.size > 0 ? this.#clock.setTimer(this.#look, LOOK_MS) : undefined
  }
}

function silenceOf({ isConnected, socket, response }: Underway): number {
  if (response !== undefined) return BODY_SILENCE_MS
  return socket !== undefined && !isConnected ? CONNECT_MS : HEAD_SILENCE_MS
}
