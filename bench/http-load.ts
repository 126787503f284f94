import net from 'node:net'

/** What to ask of a server, over and over. */
export interface Load {
  port: number
  method: 'GET' | 'PUT' | 'POST'
  /** By default an entry with another value each time. `$n` in it stands for a number that comes once, `$k` for one below 1,000. */
  body?: string
  /** Taken in turn. A PUT without a pace goes on until each had one: what reads them afterwards finds all. */
  paths: string[]
  /** Of each path; by default the address. */
  hosts?: string[]
  /** The lines of further headers, each with its CRLF. */
  headers: string
  connections: number
  durationMs: number
  /** Requests a second, however long answers take; by default, as fast as it is answered. */
  perSecond?: number
}

export interface LoadResult {
  /** Requests answered. */
  count: number
  /** Requests a second. */
  rate: number
  /** Milliseconds. */
  median: number
  p99: number
}

/**
 * Asks as fast as it is answered, or at a steady rate, one request at a time on each connection. Raw sockets and no parser to speak of,
 * since every cycle that is spent here is one that the server beside it does not get. A process of its own: {@link Load} comes
 * in as a message, {@link LoadResult} goes out, or {@link LoadFailure}.
 */
async function run(load: Load): Promise<LoadResult> {
  const started = performance.now()
  const until = started + load.durationMs
  const times: number[] = []
  const pace = load.perSecond === undefined ? AT_ONCE : new Pace(load.perSecond, until)
  const least = load.method === 'PUT' && load.perSecond === undefined ? load.paths.length : 0
  const isOver = (now: number) => now >= until && times.length >= least
  await Promise.all(
    Array.from({ length: load.connections }, () => ask(load.port, requests(load), isOver, times, pace)),
  )
  const seconds = (performance.now() - started) / 1_000
  times.sort((a, b) => a - b)
  const at = (share: number) => times[Math.floor(times.length * share)] ?? Number.NaN
  return { count: times.length, rate: times.length / seconds, median: at(0.5), p99: at(0.99) }
}

export interface LoadFailure {
  failed: string
}

/** When a connection may ask. */
interface Turns {
  /** @param send takes when the request was due, in the time of `performance.now()`; undefined: it is over */
  wait(send: (due: number | undefined) => void): void
}

const AT_ONCE: Turns = { wait: (send) => send(performance.now()) }

/** The most that a look at the sockets waits for a nap, in milliseconds. */
const NAP_MS = 0.1

/**
 * Requests at even distances. One that finds all connections busy waits for the first that is free, and its time counts from when it
 * was due. Timers of the event loop come once in a millisecond, and a loop that never rests takes a processor from the server: between
 * looks at the sockets there is a nap.
 */
class Pace implements Turns {
  readonly #distanceMs: number
  readonly #until: number
  readonly #nap = new Int32Array(new SharedArrayBuffer(4))
  readonly #free: ((due: number | undefined) => void)[] = []
  #due = performance.now()
  #isTurning = false

  constructor(perSecond: number, until: number) {
    this.#distanceMs = 1_000 / perSecond
    this.#until = until
  }

  wait(send: (due: number | undefined) => void): void {
    this.#free.push(send)
    if (this.#isTurning) return
    this.#isTurning = true
    setImmediate(() => this.#turn())
  }

  #turn(): void {
    const now = performance.now()
    const isOver = now >= this.#until
    while (this.#free.length > 0 && (isOver || this.#due <= now)) {
      const send = this.#free.shift()
      send?.(isOver ? undefined : this.#due)
      this.#due += this.#distanceMs
    }
    this.#isTurning = !isOver
    if (isOver) return
    const restMs = Math.min(NAP_MS, this.#due - performance.now())
    if (restMs > 0) Atomics.wait(this.#nap, 0, 0, restMs)
    setImmediate(() => this.#turn())
  }
}

const VALUE = 'v'.repeat(100)
let asked = 0

/** SQLite writes nothing where a row stays as it was, so that every put is of another value. */
function requests({ method, paths, hosts, headers, body: given }: Load): () => string {
  const host = (i: number) => hosts?.[i] ?? '127.0.0.1'
  const heads = paths.map((path, i) => `${method} ${path} HTTP/1.1\r\nHost: ${host(i)}\r\n${headers}`)
  const parts = (given ?? `{"value":"${VALUE}$n"}`).split(/(\$[nk])/)
  return () => {
    const head = heads[asked++ % heads.length] as string
    if (method === 'GET') return `${head}\r\n`
    let body = ''
    for (const part of parts) body += part === '$n' ? asked : part === '$k' ? asked % 1_000 : part
    return `${head}Content-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n${body}`
  }
}

const ANSWER_BYTES_MAX = 65_536

function ask(
  port: number,
  next: () => string,
  isOver: (now: number) => boolean,
  times: number[],
  turns: Turns,
): Promise<void> {
  return new Promise((resolve, reject) => {
    const buffer = Buffer.allocUnsafe(ANSWER_BYTES_MAX)
    let received = ''
    let sent = 0
    const send = (due: number | undefined) => {
      if (due === undefined) {
        socket.end(resolve)
        return
      }
      sent = due
      socket.write(next(), 'latin1')
    }
    // One buffer for all reads: streams would make one for each.
    const callback = (bytes: number) => {
      received += buffer.toString('latin1', 0, bytes)
      if (!isWhole(received)) return true
      if (!received.startsWith('HTTP/1.1 2')) reject(new Error(`An answer that is none: ${received}`))
      received = ''
      const now = performance.now()
      times.push(now - sent)
      if (isOver(now)) socket.end(resolve)
      else turns.wait(send)
      return true
    }
    const socket = net.connect({ port, host: '127.0.0.1', noDelay: true, onread: { buffer, callback } })
    socket.on('connect', () => turns.wait(send))
    socket.on('error', reject)
  })
}

const LENGTH = '\r\nContent-Length: '

function isWhole(answer: string): boolean {
  const end = answer.indexOf('\r\n\r\n')
  if (end === -1) return false
  const at = answer.indexOf(LENGTH)
  // Other servers spell it otherwise.
  const length =
    at === -1 ? /\r\ncontent-length: *(\d+)/i.exec(answer)?.[1] : answer.slice(at + LENGTH.length)
  return answer.length - end - 4 >= Number.parseInt(length ?? '0', 10)
}

process.on('message', async (load: Load) => {
  try {
    process.send?.(await run(load))
  } catch (error) {
    // Other connections still ask: nothing can be measured beside them.
    process.send?.({ failed: (error as Error).message } satisfies LoadFailure, () => process.exit(1))
  }
})
