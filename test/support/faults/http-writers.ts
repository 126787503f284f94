import { setTimeout as sleep } from 'node:timers/promises'
import type { ServedNode } from '../cli/workplace.ts'
import type { Random } from '../random.ts'

type Answer = { status: number; body: Record<string, unknown> }

/** What is known of one cell's entries, by their numbers. */
interface Sent {
  next: number
  sent: Set<number>
  acknowledged: Set<number>
}

/** Written, no answer, and what is to be tried again. */
const EXPECTED = new Set([200, 0, 503])
const NO_ANSWER: Answer = { status: 0, body: {} }

/**
 * Clients that write numbered entries to cells over HTTP, each entry a batch of a row, a key and two counters, and keep
 * count of which were acknowledged. What had no answer, or an error, may be there or not; but whole, and once.
 */
export class HttpWriters {
  /** Of the account that has the cells. */
  readonly key: string
  readonly cells = new Map<string, Sent>()
  /** Acknowledged writes, of all cells. */
  acknowledged = 0
  /** The node was stopped with SIGSTOP meanwhile. */
  wasStopped = false
  /** How often which status was answered; 0 is a broken connection. */
  readonly statuses: Record<number, number> = {}
  /** Called when an acknowledgement arrives. */
  onAcknowledged = () => {}
  readonly #odd: string[] = []
  #stopping = false

  private constructor(key: string) {
    this.key = key
  }

  static async create(node: ServedNode, cells: number): Promise<HttpWriters> {
    const writers = new HttpWriters(node.key)
    for (let i = 0; i < cells; i++) {
      const id = String((await node.request('POST', '/v1/databases')).body['id'])
      for (const sql of [
        'CREATE TABLE ledger (n INTEGER PRIMARY KEY, body TEXT NOT NULL)',
        'CREATE TABLE tally (entries INTEGER NOT NULL)',
        'INSERT INTO tally VALUES (0)',
      ]) {
        const { status, body } = await node.request('POST', `/v1/databases/${id}/sql`, { sql })
        if (status !== 200) throw new Error(`${sql} has failed: ${JSON.stringify(body)}`)
      }
      writers.cells.set(id, { next: 0, sent: new Set(), acknowledged: new Set() })
    }
    return writers
  }

  /** Writes with so many clients a cell until the returned function is called, which waits for the last of them. */
  start(node: ServedNode, clients: number, random: Random): () => Promise<void> {
    this.#stopping = false
    const running = [...this.cells].flatMap(([id, cell]) =>
      Array.from({ length: clients }, () => this.#client(node, id, cell, random)),
    )
    return async () => {
      this.#stopping = true
      await Promise.all(running)
    }
  }

  /** @throws if a client was answered what it should not be, and unless every cell holds all that was acknowledged, nothing that was not sent, and nothing by half or twice */
  async check(node: ServedNode): Promise<void> {
    if (this.#odd.length > 0) throw new Error(`Answers that nobody should get: ${this.#odd}`)
    for (const [id, { sent, acknowledged }] of this.cells) {
      const rows = await this.#rows(node, id, 'SELECT n, body FROM ledger ORDER BY n')
      const keys = await this.#rows(
        node,
        id,
        "SELECT key, value FROM cell_kv WHERE key <> 'counter' ORDER BY key",
      )
      const [[entries] = []] = await this.#rows(node, id, 'SELECT entries FROM tally')
      const counter = await this.#rows(node, id, "SELECT value FROM cell_kv WHERE key = 'counter'")
      const numbers = rows.map(([n]) => Number(n))
      const there = new Set(numbers)
      const lost = [...acknowledged].filter((n) => !there.has(n))
      if (lost.length > 0) throw new Error(`${id}: acknowledged, and lost: ${lost}`)
      const unknown = numbers.filter((n) => !sent.has(n))
      if (unknown.length > 0) throw new Error(`${id}: never sent: ${unknown}`)
      const pairs = new Map(keys.map(([key, value]) => [key, value]))
      const half = rows.filter(([n, body]) => body !== bodyOf(Number(n)) || pairs.get(`k${n}`) !== body)
      if (half.length > 0 || pairs.size !== numbers.length)
        throw new Error(`${id}: rows and keys do not agree`)
      const counted = Number(counter[0]?.[0] ?? 0)
      if (entries !== numbers.length || counted !== numbers.length) {
        throw new Error(`${id}: ${numbers.length} entries, tally ${entries}, counter ${counted}`)
      }
    }
  }

  async #client(node: ServedNode, id: string, cell: Sent, random: Random): Promise<void> {
    while (!this.#stopping) {
      const n = cell.next++
      cell.sent.add(n)
      const { status, body } = await this.#request(node, id, 'batch', { operations: entry(n) })
      this.statuses[status] = (this.statuses[status] ?? 0) + 1
      // Above all no 409, which says that the entry is there: then it was written, and run a second time.
      // A node that was stopped for as long as a request may take to arrive takes it for late: nothing of it is done.
      const isLate = this.wasStopped && status === 408 && body['code'] === 'request_timeout'
      if (!EXPECTED.has(status) && !isLate) this.#odd.push(`${id} ${n}: ${status} ${JSON.stringify(body)}`)
      if (status === 200) {
        cell.acknowledged.add(n)
        this.acknowledged++
        this.onAcknowledged()
      } else await sleep(1 + random.below(5))
    }
  }

  async #rows(node: ServedNode, id: string, sql: string): Promise<unknown[][]> {
    for (let tries = 0; ; tries++) {
      const { status, body } = await this.#request(node, id, 'sql', { sql, row_mode: 'array' })
      if (status === 200) return body['rows'] as unknown[][]
      if (status !== 503 || tries === 100) throw new Error(`${id}: ${status} ${JSON.stringify(body)}`)
      await sleep(50)
    }
  }

  /** A connection that breaks is an answer, too. */
  async #request(node: ServedNode, id: string, what: string, body: unknown): Promise<Answer> {
    return await node.request('POST', `/v1/databases/${id}/${what}`, body, this.key).catch(() => NO_ANSWER)
  }
}

function entry(n: number): object[] {
  const body = bodyOf(n)
  return [
    { sql: 'INSERT INTO ledger VALUES (?, ?)', params: [n, body] },
    { kv: 'put', key: `k${n}`, value: body },
    { sql: 'UPDATE tally SET entries = entries + 1' },
    { kv: 'incr', key: 'counter' },
  ]
}

function bodyOf(n: number): string {
  return `${n}.`.repeat(1 + ((n * 7_919) % 100))
}
