import net from 'node:net'

/** What to ask of a server, over and over. */
export interface Load {
  port: number
  method: 'GET' | 'PUT' | 'POST'
  /** Of a POST. */
  body?: string
  /** Taken in turn. A PUT goes on until each had one: what reads them afterwards finds all. */
  paths: string[]
  /** The lines of further headers, each with its CRLF. */
  headers: string
  connections: number
  durationMs: number
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
 * Asks as fast as it is answered, one request at a time on each connection. Raw sockets and no parser to speak of, since
 * every cycle that is spent here is one that the server beside it does not get. A process of its own: {@link Load} comes
 * in as a message, {@link LoadResult} goes out.
 */
async function run(load: Load): Promise<LoadResult> {
  const started = performance.now()
  const until = started + load.durationMs
  const times: number[] = []
  const least = load.method === 'PUT' ? load.paths.length : 0
  const isOver = (now: number) => now >= until && times.length >= least
  await Promise.all(
    Array.from({ length: load.connections }, () => ask(load.port, requests(load), isOver, times)),
  )
  const seconds = (performance.now() - started) / 1_000
  times.sort((a, b) => a - b)
  const at = (share: number) => times[Math.floor(times.length * share)] ?? Number.NaN
  return { count: times.length, rate: times.length / seconds, median: at(0.5), p99: at(0.99) }
}

const VALUE = 'v'.repeat(100)
let asked = 0

/** SQLite writes nothing where a row stays as it was, so that every put is of another value. */
function requests({ method, paths, headers, body: posted }: Load): () => string {
  const heads = paths.map((path) => `${method} ${path} HTTP/1.1\r\nHost: 127.0.0.1\r\n${headers}`)
  return () => {
    const head = heads[asked++ % heads.length] as string
    if (method === 'GET') return `${head}\r\n`
    const body = posted ?? `{"value":"${VALUE}${asked}"}`
    return `${head}Content-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n${body}`
  }
}

const ANSWER_BYTES_MAX = 65_536

function ask(
  port: number,
  next: () => string,
  isOver: (now: number) => boolean,
  times: number[],
): Promise<void> {
  return new Promise((resolve, reject) => {
    const buffer = Buffer.allocUnsafe(ANSWER_BYTES_MAX)
    let received = ''
    let sent = 0
    const send = () => {
      sent = performance.now()
      socket.write(next(), 'latin1')
    }
    // One buffer for all reads: streams would make one for each.
    const callback = (bytes: number) => {
      received += buffer.toString('latin1', 0, bytes)
      if (!isWhole(received)) return true
      if (!received.startsWith('HTTP/1.1 200 ')) reject(new Error(`An answer that is none: ${received}`))
      received = ''
      const now = performance.now()
      times.push(now - sent)
      if (isOver(now)) socket.end(resolve)
      else send()
      return true
    }
    const socket = net.connect({ port, host: '127.0.0.1', noDelay: true, onread: { buffer, callback } })
    socket.on('connect', send)
    socket.on('error', reject)
  })
}

const LENGTH = '\r\nContent-Length: '

function isWhole(answer: string): boolean {
  const end = answer.indexOf('\r\n\r\n')
  const length = answer.indexOf(LENGTH)
  return end !== -1 && answer.length - end - 4 >= Number.parseInt(answer.slice(length + LENGTH.length), 10)
}

process.on('message', async (load: Load) => {
  process.send?.(await run(load))
})
