import http from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import type { BenchNode } from './bench-cluster.ts'

const AGAIN_MS = 50
/** A machine that does not answer lets its clients wait. */
const TIMEOUT_MS = 2_000
const agent = new http.Agent({ keepAlive: true })

export interface Answer {
  /** 0 if there was none. */
  status: number
  text: string
}

/** Asks a node once. */
export function ask(
  { port, key }: Pick<BenchNode, 'port' | 'key'>,
  method: string,
  path: string,
  { body, timeoutMs = 60_000 }: { body?: object; timeoutMs?: number } = {},
): Promise<Answer> {
  const text = body === undefined ? '' : JSON.stringify(body)
  const headers = {
    'x-api-key': key,
    ...(body && { 'content-type': 'application/json', 'content-length': Buffer.byteLength(text) }),
  }
  return new Promise((resolve) => {
    const none = () => resolve({ status: 0, text: '' })
    const signal = AbortSignal.timeout(timeoutMs)
    const request = http.request({ agent, host: '127.0.0.1', port, method, path, headers, signal })
    request.on('error', none)
    request.on('response', (response) => {
      let text = ''
      response.setEncoding('utf8')
      response.on('data', (piece) => {
        text += piece
      })
      response.on('end', () => resolve({ status: response.statusCode ?? 0, text }))
      response.on('error', none)
    })
    request.end(text)
  })
}

/** Goes on while the cell is on its way to another node. @throws for an answer that is not 2xx */
export async function must<T>(...of: Parameters<typeof ask>): Promise<T> {
  let { status, text } = await ask(...of)
  while (status === 503 && text.includes('"cell_moving"')) ({ status, text } = await ask(...of))
  if (status < 200 || status > 299) throw new Error(`${of[1]} ${of[2]}: ${status} ${text}`)
  return JSON.parse(text) as T
}

/** New cells, each with an entry and that many bytes. @returns their paths */
export async function createCells(
  node: Pick<BenchNode, 'port' | 'key'>,
  count: number,
  bytes = 0,
): Promise<string[]> {
  const cells: string[] = []
  await eachOf(Array.from({ length: count }), 4, async () => {
    const { id } = await must<{ id: string }>(node, 'POST', '/v1/databases')
    const cell = `/v1/databases/${id}`
    await must(node, 'PUT', `${cell}/kv/key`, { body: { value: '1' } })
    const sql = `CREATE TABLE filling AS SELECT randomblob(${bytes}) AS bytes`
    if (bytes > 0) await must(node, 'POST', `${cell}/sql`, { body: { sql } })
    cells.push(cell)
  })
  return cells
}

/** Those that a node has. */
export async function cellsOf(node: BenchNode, cells: readonly string[]): Promise<string[]> {
  const own: string[] = []
  await eachOf(cells, 8, async (cell) => {
    const { node: owner } = await must<{ node: { address: string } }>(node, 'GET', cell)
    if (owner.address === node.address) own.push(cell)
  })
  return own
}

/** Does it for each, so many at a time. */
export async function eachOf<T>(
  items: readonly T[],
  atOnce: number,
  run: (item: T, index: number) => Promise<void>,
): Promise<void> {
  const left = items.entries()
  const work = async () => {
    for (const [index, item] of left) await run(item, index)
  }
  await Promise.all(Array.from({ length: atOnce }, work))
}

/** What a client that asks again saw. */
export interface Persistence {
  /** Milliseconds until 2xx. */
  ms: number
  /** Answers before that were none, or others. */
  refused: number
}

/** Asks until it is answered with 2xx, as a client does that heeds 503. @throws after two minutes */
export async function askUntilAnswered(
  nodes: readonly BenchNode[],
  method: string,
  path: string,
  body?: object,
): Promise<Persistence> {
  const begin = performance.now()
  for (let refused = 0; ; refused++) {
    const node = nodes[refused % nodes.length] as BenchNode
    const { status, text } = await ask(node, method, path, { ...(body && { body }), timeoutMs: TIMEOUT_MS })
    const ms = performance.now() - begin
    if (status >= 200 && status <= 299) return { ms, refused }
    if (ms > 120_000) throw new Error(`${method} ${path} was not answered: ${status} ${text}`)
    await sleep(AGAIN_MS)
  }
}
