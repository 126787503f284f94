import { once } from 'node:events'
import http from 'node:http'
import type { AddressInfo } from 'node:net'
import type { Random } from '../random.ts'

/** What can go wrong between a store and its bucket. */
export const FAULTS = {
  refused: 'answers 500, 503, 429 or 409 instead of passing the request on',
  expired: 'answers 400 ExpiredToken or RequestTimeout instead of passing the request on',
  reset: 'cuts the connection before the request is passed on',
  stalled: 'takes the request and never answers',
  lost: 'passes the request on and cuts the connection before the answer',
  doubted: 'passes the request on and answers 500',
  taken: 'passes the request on and answers 412, as after a repeated create-only PUT',
  short: 'cuts the connection within the body of the answer',
  flipped: 'changes one byte of the body of the answer',
  lagging: 'answers a listing as it was when it was last asked for',
} as const
export type Fault = keyof typeof FAULTS

const REFUSALS: [number, string][] = [
  [500, 'InternalError'],
  [503, 'SlowDown'],
  [429, 'TooManyRequests'],
  [409, 'OperationAborted'],
]
const EXPIRIES: [number, string][] = [
  [400, 'ExpiredToken'],
  [400, 'RequestTimeout'],
]

/** Before a request is passed on, or after the bucket has carried it out. */
export type RequestMoment = 'before' | 'after'

/** A proxy in front of a real S3 that injects faults into some of the requests. */
export class FaultProxy {
  /** How many of each were injected. */
  readonly injected = new Map<Fault, number>()
  /** The chance of a fault in each request, from 0 to 1. */
  rate = 0
  faults: readonly Fault[] = Object.keys(FAULTS) as Fault[]
  requests = 0
  /** Called with each request's number. @returns whether the connection is cut there */
  onRequest: (number: number, when: RequestMoment) => boolean = () => false
  /** Keys that old listings have left out since somebody has cleared it. */
  readonly hidden = new Set<string>()
  readonly #random: Random
  readonly #upstream: URL
  readonly #server = http.createServer((incoming, outgoing) => {
    this.#serve(incoming, outgoing).catch(() => outgoing.destroy())
  })
  readonly #agent = new http.Agent({ keepAlive: true })
  /** The last answer to each listing. */
  readonly #listings = new Map<string, Answer>()

  private constructor(upstream: string, random: Random) {
    this.#upstream = new URL(upstream)
    this.#random = random
  }

  static async start(upstream: string, random: Random): Promise<FaultProxy> {
    const proxy = new FaultProxy(upstream, random)
    proxy.#server.listen(0, '127.0.0.1')
    await once(proxy.#server, 'listening')
    return proxy
  }

  get endpoint(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`
  }

  async stop(): Promise<void> {
    this.#agent.destroy()
    this.#server.closeAllConnections()
    this.#server.close()
    await once(this.#server, 'close')
  }

  async #serve(incoming: http.IncomingMessage, outgoing: http.ServerResponse): Promise<void> {
    const number = ++this.requests
    const body = await bodyOf(incoming)
    if (this.onRequest(number, 'before')) return void outgoing.destroy()
    const isListing = incoming.method === 'GET' && /[?&](list-type|uploads)\b/.test(incoming.url ?? '')
    const fault = this.#choose(incoming, isListing)
    if (fault === 'reset') return void outgoing.destroy()
    if (fault === 'stalled') return
    if (fault === 'refused') return send(outgoing, failure(...this.#random.pick(REFUSALS)))
    if (fault === 'expired') return send(outgoing, failure(...this.#random.pick(EXPIRIES)))
    const before = this.#listings.get(incoming.url ?? '')
    const answer = await this.#pass(incoming, body)
    if (fault === 'lagging' && before !== undefined) {
      const shown = keysIn(before)
      for (const key of keysIn(answer)) if (!shown.has(key)) this.hidden.add(key)
      return send(outgoing, before)
    }
    if (this.onRequest(number, 'after')) return void outgoing.destroy()
    if (isListing && answer.status === 200) this.#listings.set(incoming.url ?? '', answer)
    if (fault === 'lost') return void outgoing.destroy()
    if (fault === 'doubted') return send(outgoing, failure(500, 'InternalError'))
    if (fault === 'taken') return send(outgoing, failure(412, 'PreconditionFailed'))
    if (fault === 'flipped') answer.body = this.#flipped(answer.body)
    send(outgoing, answer, fault === 'short' ? this.#random.below(answer.body.length) : undefined)
  }

  #choose({ method, headers, url }: http.IncomingMessage, isListing: boolean): Fault | undefined {
    if (!this.#random.chance(this.rate)) return undefined
    const isRead = method === 'GET' && !isListing
    const isCreateOnly = method === 'PUT' && headers['if-none-match'] === '*'
    const possible = this.faults.filter((fault) => {
      if (fault === 'short' || fault === 'flipped') return isRead
      if (fault === 'lagging') return isListing && this.#listings.has(url ?? '')
      if (fault === 'taken') return isCreateOnly
      return true
    })
    if (possible.length === 0) return undefined
    const fault = this.#random.pick(possible)
    this.injected.set(fault, (this.injected.get(fault) ?? 0) + 1)
    return fault
  }

  #flipped(body: Buffer): Buffer {
    if (body.length === 0) return body
    const flipped = Buffer.from(body)
    const at = this.#random.below(body.length)
    flipped[at] = (flipped[at] as number) ^ (1 << this.#random.below(8))
    return flipped
  }

  /** The request's own headers go on as they are, the signed `Host` too. */
  async #pass(incoming: http.IncomingMessage, body: Buffer): Promise<Answer> {
    const { hostname, port } = this.#upstream
    const { method, url: path } = incoming
    const request = http.request({
      agent: this.#agent,
      hostname,
      port,
      method,
      path,
      headers: withoutHop(incoming.rawHeaders),
      setHost: false,
    })
    request.end(body)
    const [response] = (await once(request, 'response')) as [http.IncomingMessage]
    return {
      status: response.statusCode ?? 500,
      headers: withoutHop(response.rawHeaders),
      body: await bodyOf(response),
      isHead: method === 'HEAD',
    }
  }
}

interface Answer {
  status: number
  headers: string[]
  body: Buffer
  isHead?: boolean
}

/** @param cutAt how many bytes of the body are sent before the connection is cut */
function send(
  outgoing: http.ServerResponse,
  { status, headers, body, isHead }: Answer,
  cutAt?: number,
): void {
  const hasLength = headers.some((name, i) => i % 2 === 0 && name.toLowerCase() === 'content-length')
  const length = hasLength || isHead ? [] : ['content-length', String(body.length)]
  outgoing.writeHead(status, [...headers, ...length])
  if (cutAt === undefined) outgoing.end(body)
  else outgoing.write(body.subarray(0, cutAt), () => outgoing.destroy())
}

function failure(status: number, code: string): Answer {
  const body = Buffer.from(
    `<?xml version="1.0"?><Error><Code>${code}</Code><Message>injected</Message></Error>`,
  )
  return { status, headers: ['content-type', 'application/xml'], body }
}

function keysIn({ body }: Answer): Set<string> {
  return new Set([...body.toString().matchAll(/<Key>([^<]*)<\/Key>/g)].map(([, key]) => key as string))
}

async function bodyOf(message: http.IncomingMessage): Promise<Buffer> {
  const chunks: Buffer[] = []
  for await (const chunk of message) chunks.push(chunk)
  return Buffer.concat(chunks)
}

function withoutHop(rawHeaders: readonly string[]): string[] {
  return rawHeaders.filter((_, i) => {
    const name = rawHeaders[i - (i % 2)]?.toLowerCase()
    return name !== 'connection' && name !== 'transfer-encoding' && name !== 'keep-alive' && name !== 'expect'
  })
}
