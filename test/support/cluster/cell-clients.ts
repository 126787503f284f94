import { setTimeout as sleep } from 'node:timers/promises'
import type { Random } from '../random.ts'
import type { Append, Loss, Read, Swap, Violation } from './history.ts'
import { checkAppends, checkSwaps, lasting } from './history.ts'
import type { Answer, TestCluster, TestNode } from './test-cluster.ts'

/** Refused before anything was done, for the state of the cluster. */
const REFUSED = new Set([408, 429, 503])

/** Clients of one cell that ask any of the nodes: appends, reads of all, and a register that is compared and set. */
export class CellClients {
  readonly id: string
  /** Answers that nobody should get. */
  readonly odd: string[] = []
  readonly appends: Append[] = []
  readonly reads: Read[] = []
  readonly swaps: Swap[] = []
  readonly statuses: Record<number, number> = {}
  /** How many acknowledged appends are lost, and may be. */
  lost = 0
  /** When a request was answered as it should be. */
  readonly #successes: number[] = []
  readonly #cluster: TestCluster
  readonly #random: Random
  #next = 1
  #isOver = false
  #running: Promise<void>[] = []

  private constructor(cluster: TestCluster, id: string, random: Random) {
    this.#cluster = cluster
    this.id = id
    this.#random = random
  }

  static async create(cluster: TestCluster, random: Random): Promise<CellClients> {
    const node = random.pick(cluster.nodes)
    // On a busy machine the first version may not be in the bucket in time.
    const made = await untilDone('a new cell', () =>
      node.request('POST', '/v1/databases', { key: cluster.key, body: {} }),
    )
    const clients = new CellClients(cluster, String(made.body['id']), random)
    const sql = 'CREATE TABLE IF NOT EXISTS t (id INTEGER PRIMARY KEY, n INTEGER NOT NULL)'
    await untilDone(clients.id, () => clients.#ask(node, 'POST', '/sql', { sql }))
    await untilDone(clients.id, () => clients.#ask(node, 'PUT', '/kv/register', { value: '0' }))
    // A node that is lost takes only appends and swaps along.
    await untilDone(clients.id, () => clients.#ask(node, 'POST', '/backup'))
    return clients
  }

  start(): void {
    this.#running = [this.#appending(), this.#reading(), this.#swapping()]
  }

  async stop(): Promise<void> {
    this.#isOver = true
    await Promise.all(this.#running)
  }

  get acknowledged(): number {
    return this.appends.filter((each) => each.acknowledged).length
  }

  /**
   * Call it when all is well again.
   *
   * @param losses what may have been lost: nothing by default
   */
  async check(losses: readonly Loss[] = []): Promise<Violation[]> {
    // A cell that is gone has no values.
    const isKnown = ({ status }: Answer) => isSuccess(status) || status === 404
    const final = valuesOf(await untilDone(this.id, () => this.#select(this.#node), isKnown))
    const { appends, swaps } = lasting(this, final, losses)
    this.lost = appends.filter((each, i) => each.acknowledged !== this.appends[i]?.acknowledged).length
    return [
      ...checkAppends(appends, this.reads, final),
      ...checkSwaps(swaps),
      ...this.odd.map((what) => ({ rule: 'answers that nobody should get', what })),
    ]
  }

  /** The longest time without a success of any client. */
  longestSilenceMs(from: number, to: number): number {
    const times = [from, ...this.#successes.filter((at) => at > from && at < to), to]
    return Math.round(Math.max(...times.slice(1).map((at, i) => at - (times[i] as number))))
  }

  get #node(): TestNode {
    return this.#random.pick(this.#cluster.nodes)
  }

  async #appending(): Promise<void> {
    while (!this.#isOver) {
      const value = this.#next++
      const append: Append = {
        value,
        begun: performance.now(),
        ended: Number.POSITIVE_INFINITY,
        acknowledged: false,
        by: '',
      }
      this.appends.push(append)
      const sql = 'INSERT INTO t (n) VALUES (?)'
      const { status, by } = await this.#ask(this.#node, 'POST', '/sql', { sql, params: [value] })
      append.acknowledged = status === 200
      if (append.acknowledged) Object.assign(append, { ended: performance.now(), by })
      await sleep(20 + this.#random.below(100))
    }
  }

  async #reading(): Promise<void> {
    while (!this.#isOver) {
      const begun = performance.now()
      const answer = await this.#select(this.#node)
      if (answer.status === 200)
        this.reads.push({ begun, ended: performance.now(), values: valuesOf(answer) })
      await sleep(40 + this.#random.below(160))
    }
  }

  async #swapping(): Promise<void> {
    while (!this.#isOver) {
      const { status, etag } = await this.#ask(this.#node, 'GET', '/kv/register')
      if (status === 200 && etag !== null) {
        const to = `${this.#random.below(1e9)}`
        const begun = performance.now()
        const answer = await this.#ask(this.#node, 'PUT', '/kv/register', { value: to }, { 'if-match': etag })
        const acknowledged = isSuccess(answer.status)
        const { by } = answer
        this.swaps.push({ from: etag, to, begun, ended: performance.now(), acknowledged, by })
      }
      await sleep(30 + this.#random.below(120))
    }
  }

  #select(node: TestNode): Promise<Answer> {
    return this.#ask(node, 'POST', '/sql', { sql: 'SELECT n FROM t ORDER BY id', row_mode: 'array' })
  }

  async #ask(
    node: TestNode,
    method: string,
    route: string,
    body?: unknown,
    headers: Record<string, string> = {},
  ) {
    const { key } = this.#cluster
    const answer = await node.request(method, `/v1/databases/${this.id}${route}`, { key, body, headers })
    this.statuses[answer.status] = (this.statuses[answer.status] ?? 0) + 1
    const { status } = answer
    if (isSuccess(status)) this.#successes.push(performance.now())
    const isExpected = status < 300 || REFUSED.has(status) || (status === 412 && method === 'PUT')
    if (!isExpected)
      this.odd.push(
        `${new Date().toISOString()} ${node.name} ${method} ${route}: ${status} ${JSON.stringify(answer.body)}`,
      )
    return answer
  }
}

function valuesOf({ body }: Answer): number[] {
  return ((body['rows'] ?? []) as number[][]).map(([value]) => Number(value))
}

function isSuccess(status: number): boolean {
  return status >= 200 && status < 300
}

/** @throws after 90 s without an answer that will do */
async function untilDone(
  what: string,
  ask: () => Promise<Answer>,
  isDone = ({ status }: Answer) => isSuccess(status),
): Promise<Answer> {
  for (const until = performance.now() + 90_000; ; ) {
    const answer = await ask()
    if (isDone(answer)) return answer
    if (performance.now() > until)
      throw new Error(`${what}: ${answer.status} ${JSON.stringify(answer.body)} for 90 s`)
    await sleep(100)
  }
}
