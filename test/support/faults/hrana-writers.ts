import { setTimeout as sleep } from 'node:timers/promises'
import type { ServedNode } from '../cli/workplace.ts'
import type { Random } from '../random.ts'

/** What a client knows of a transaction. `unknown`: its COMMIT may have been made. */
type Outcome = 'open' | 'committed' | 'refused' | 'unknown'

interface Transaction {
  id: string
  rows: number
  outcome: Outcome
  /** The answer to its last request. */
  told?: string
  /** It comes after this one in the same request: it is there only if that one is. */
  after?: string | undefined
}

/** A request of Hrana, and what it commits. */
interface Request {
  statements: object[]
  via: 'executes' | 'batch' | 'cursor'
  isClosing: boolean
  commits: Transaction[]
}

interface Answer {
  status: number
  body: Record<string, unknown>
}

/** Nothing of the transaction remains, and the client is told so; unless the message says that a part stays. */
const REFUSED = new Set(['STREAM_EXPIRED', 'TRANSACTION_TIMEOUT'])
const STAYS = 'What its request committed before it stays.'
const NO_ANSWER: Answer = { status: 0, body: {} }
const SCHEMA = [
  'CREATE TABLE ledger (id TEXT NOT NULL, parts INTEGER NOT NULL)',
  'CREATE TABLE tally (entries INTEGER NOT NULL)',
  'INSERT INTO tally VALUES (0)',
  // So that a statement that ran twice, or by half, shows.
  'CREATE TRIGGER counted AFTER INSERT ON ledger BEGIN UPDATE tally SET entries = entries + 1; END',
]
const PLAIN = ['sql', 'batch', 'kv'] as const
const HALF = 'SELECT id, count(*) FROM ledger GROUP BY id HAVING count(*) <> max(parts)'

/**
 * Clients of Hrana beside plain ones, on the same cells. Each transaction has rows of its own. A client begins some over several requests, others within
 * one, in pipelines, batches and cursors, with savepoints, or commits its statements without a BEGIN; and it may roll back, close its stream or
 * just leave. It keeps count of what it was told.
 */
export class HranaWriters {
  readonly #cells = new Map<string, Transaction[]>()
  readonly #key: string
  readonly #odd: string[] = []
  #made = 0
  #isStopping = false
  /** Transactions and operations that were acknowledged. */
  acknowledged = 0
  /** How often which kind of transaction had which outcome. */
  readonly outcomes: Record<string, number> = {}
  /** How often which answer came that is no 200; 0 is a broken connection. */
  readonly answers: Record<string, number> = {}

  private constructor(key: string) {
    this.#key = key
  }

  static async create(node: ServedNode, cells: number): Promise<HranaWriters> {
    const writers = new HranaWriters(node.key)
    for (let i = 0; i < cells; i++) {
      const id = String((await node.request('POST', '/v1/databases')).body['id'])
      for (const sql of SCHEMA) {
        const { status, body } = await node.request('POST', `/v1/databases/${id}/sql`, { sql })
        if (status !== 200) throw new Error(`${sql} has failed: ${JSON.stringify(body)}`)
      }
      writers.#cells.set(id, [])
    }
    return writers
  }

  /** Writes until the returned function is called, which waits for the last request. */
  start(node: ServedNode, { clients, random }: { clients: number; random: Random }): () => Promise<void> {
    this.#isStopping = false
    const running = [...this.#cells.keys()].flatMap((cell) => [
      ...Array.from({ length: clients }, () => this.#repeat(() => this.#hrana(node, cell, random), random)),
      this.#repeat(() => this.#plain(node, cell, random.pick(PLAIN)), random),
      this.#repeat(() => this.#read(node, cell), random),
    ])
    return async () => {
      this.#isStopping = true
      await Promise.all(running)
    }
  }

  /** @throws unless each cell has every acknowledged transaction once, none that was refused, and all others once or not at all */
  async check(node: ServedNode): Promise<void> {
    if (this.#odd.length > 0) throw new Error(`Answers that nobody should get: ${this.#odd.join('\n')}`)
    for (const [cell, transactions] of this.#cells) {
      const rows = await this.#rows(node, cell, 'SELECT id, count(*) FROM ledger GROUP BY id')
      const found = new Map(rows.map(([id, count]) => [String(id), Number(count)]))
      const entries = await this.#rows(node, cell, 'SELECT key, value FROM cell_kv')
      const kv = new Map(entries.map(([key, value]) => [String(key), Number(value)]))
      const [[tally] = []] = await this.#rows(node, cell, 'SELECT entries FROM tally')
      const counted = [...found.values()].reduce((sum, count) => sum + count, 0)
      if (tally !== counted) throw new Error(`${cell}: ${counted} rows, ${tally} in the tally`)
      const batches = [...found.keys()].filter((id) => id.startsWith('batch')).length
      if ((kv.get('batches') ?? 0) !== batches)
        throw new Error(`${cell}: ${batches} batches, ${kv.get('batches')} counted`)
      const sent = new Set(transactions.map(({ id }) => id))
      const strange = [...found.keys()].filter((id) => !sent.has(id))
      if (strange.length > 0) throw new Error(`${cell}: nobody has sent ${strange}`)
      for (const { id, rows: count, outcome, told, after } of transactions) {
        const there = id.startsWith('kv') ? (kv.get(id) ?? 0) : (found.get(id) ?? 0)
        const allowed = { open: [0], committed: [count], refused: [0], unknown: [0, count] }[outcome]
        if (!allowed.includes(there))
          throw new Error(`${cell}: ${id} is ${outcome}, with ${there} of ${count} rows: ${told}`)
        if (there > 0 && after !== undefined && !found.has(after))
          throw new Error(`${cell}: ${id} is there, and ${after}, which was committed before it, is not`)
      }
    }
  }

  async #repeat(step: () => Promise<boolean>, random: Random): Promise<void> {
    while (!this.#isStopping) if (!(await step())) await sleep(1 + random.below(5))
  }

  #begin(cell: string, kind: string, rows: number, after?: string): Transaction {
    const transaction: Transaction = { id: `${kind}-${++this.#made}`, rows, outcome: 'open', after }
    this.#cells.get(cell)?.push(transaction)
    return transaction
  }

  #end(transaction: Transaction, outcome: Outcome): void {
    transaction.outcome = outcome
    if (outcome === 'committed') this.acknowledged++
    const kind = `${transaction.id.split('-')[0]} ${outcome}`
    this.outcomes[kind] = (this.outcomes[kind] ?? 0) + 1
  }

  /** One stream. @returns false if a request of it failed */
  async #hrana(node: ServedNode, cell: string, random: Random): Promise<boolean> {
    const requests = random.chance(0.25)
      ? [this.#withoutBegin(cell, random)]
      : this.#transaction(cell, random)
    const open = new Set(requests.flatMap(({ commits }) => commits))
    let baton: unknown = null
    let hasFailed = false
    for (const request of requests) {
      const answer = await this.#send(node, cell, request, baton)
      baton = answer.body['baton']
      for (const each of open) each.told = JSON.stringify([request.statements, answer])
      if (answer.status === 200) this.#answered(request, answer)
      else {
        hasFailed = true
        const code = String(answer.body['code'])
        const isPart = String(answer.body['message']).includes(STAYS)
        const isUnknown = answer.status === 0 || answer.status === 500 || isPart
        if (!REFUSED.has(code) && !(isUnknown && request.commits.length > 0) && answer.status !== 0)
          this.#odd.push(JSON.stringify([request, answer]))
        for (const each of request.commits) this.#end(each, isUnknown ? 'unknown' : 'refused')
      }
      for (const each of request.commits) open.delete(each)
      if (hasFailed) break
    }
    for (const each of open) this.#end(each, 'refused')
    return !hasFailed
  }

  /** Where others wait for the cell, what follows a COMMIT in its request is refused by itself. */
  #answered(request: Request, { body }: Answer): void {
    const errors = JSON.stringify(body).match(/"code":"\w+"/g) ?? []
    const [last] = request.commits.slice(-1)
    const isBusy = errors.join() === '"code":"SQLITE_BUSY"' && last?.after !== undefined
    if (errors.length > 0 && !isBusy) this.#odd.push(JSON.stringify([request, body]))
    for (const each of request.commits) this.#end(each, isBusy && each === last ? 'refused' : 'committed')
  }

  /** Statements that are committed together without a BEGIN. */
  #withoutBegin(cell: string, random: Random): Request {
    const transaction = this.#begin(cell, 'autocommit', 1 + random.below(3))
    return { ...shapeOf(random), statements: insertsOf(transaction), commits: [transaction] }
  }

  /** BEGIN … COMMIT, and what may stand around it, cut into one or several requests. */
  #transaction(cell: string, random: Random): Request[] {
    const count = random.pick([1, 1, 2, 3, 4])
    const transaction = this.#begin(cell, count === 1 ? 'grouped' : 'held', 1 + random.below(4))
    const end = random.pick(['COMMIT', 'COMMIT', 'COMMIT', 'COMMIT', 'ROLLBACK', undefined])
    const [undone] = insertsOf({ ...transaction, rows: 1 }) as [object]
    const inTransaction = [
      execute(random.pick(['BEGIN', 'BEGIN IMMEDIATE'])),
      ...insertsOf(transaction),
      ...(random.chance(0.3)
        ? [execute('SAVEPOINT s'), undone, execute('ROLLBACK TO s'), execute('RELEASE s')]
        : []),
    ]
    const cuts = Array.from({ length: count - 1 }, () => 1 + random.below(inTransaction.length)).sort(
      (a, b) => a - b,
    )
    const requests: Request[] = [0, ...cuts].map((from, i) => ({
      ...shapeOf(random),
      isClosing: false,
      statements: inTransaction.slice(from, cuts[i]),
      commits: [],
    }))
    const last = requests.at(-1) as Request
    if (end === undefined) last.via = 'executes'
    last.isClosing = end === undefined ? random.chance(0.9) : last.via !== 'cursor'
    if (end !== undefined) last.statements.push(execute(end))
    if (end === 'COMMIT') last.commits.push(transaction)
    if (end === 'COMMIT' && random.chance(0.2)) {
      const next = this.#begin(cell, 'following', 1, transaction.id)
      last.statements.push(...insertsOf(next))
      last.commits.push(next)
    }
    if (count === 1 && end === 'COMMIT' && random.chance(0.2)) {
      last.statements.unshift(execute('PRAGMA foreign_keys = OFF'))
      last.statements.push(execute('PRAGMA foreign_keys = ON'))
    }
    if (end !== 'COMMIT') this.#end(transaction, 'refused')
    return requests
  }

  async #send(
    node: ServedNode,
    cell: string,
    { statements, via, isClosing }: Request,
    baton: unknown,
  ): Promise<Answer> {
    const steps = statements.map((stmt) => ({ stmt }))
    if (via === 'cursor') return await this.#cursor(node, cell, { baton, batch: { steps } })
    const requests =
      via === 'batch'
        ? [{ type: 'batch', batch: { steps } }]
        : statements.map((stmt) => ({ type: 'execute', stmt }))
    const body = { baton, requests: [...requests, ...(isClosing ? [{ type: 'close' }] : [])] }
    return await this.#post(node, cell, 'v3/pipeline', body)
  }

  async #cursor(node: ServedNode, cell: string, body: object): Promise<Answer> {
    const response = await fetch(`${node.address}/v1/databases/${cell}/v3/cursor`, {
      method: 'POST',
      headers: { 'x-api-key': this.#key, 'content-type': 'application/json' },
      body: JSON.stringify(body),
    }).catch(() => undefined)
    const text = await response?.text().catch(() => undefined)
    if (response === undefined || text === undefined) return this.#noted(NO_ANSWER)
    const [head, ...entries] = text
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line))
    return this.#noted({ status: response.status, body: { ...head, entries } })
  }

  /** An operation of the other routes. */
  async #plain(node: ServedNode, cell: string, kind: (typeof PLAIN)[number]): Promise<boolean> {
    const transaction = this.#begin(cell, kind, 1)
    const sql = { sql: 'INSERT INTO ledger VALUES (?, 1)', params: [transaction.id] }
    const { status, body } = await (kind === 'kv'
      ? this.#post(node, cell, `kv/${transaction.id}`, { value: '1' }, 'PUT')
      : kind === 'sql'
        ? this.#post(node, cell, 'sql', sql)
        : this.#post(node, cell, 'batch', { operations: [sql, { kv: 'incr', key: 'batches' }] }))
    const isRefused = REFUSED.has(String(body['code']))
    // A node answers what it runs again after the end of a worker; only of its own end there is no answer.
    if (status !== 200 && status !== 0 && !isRefused) this.#odd.push(JSON.stringify([kind, status, body]))
    this.#end(transaction, status === 200 ? 'committed' : isRefused ? 'refused' : 'unknown')
    return status === 200
  }

  /** At no time anybody sees half of a transaction. */
  async #read(node: ServedNode, cell: string): Promise<boolean> {
    const { status, body } = await this.#post(node, cell, 'sql', { sql: HALF })
    if (status === 200 && (body['rows'] as unknown[]).length > 0)
      this.#odd.push(`by half: ${JSON.stringify(body['rows'])}`)
    return false
  }

  async #rows(node: ServedNode, cell: string, sql: string): Promise<unknown[][]> {
    for (let tries = 0; ; tries++) {
      const { status, body } = await this.#post(node, cell, 'sql', { sql, row_mode: 'array' })
      if (status === 200) return body['rows'] as unknown[][]
      if (status !== 503 || tries === 100) throw new Error(`${cell}: ${status} ${JSON.stringify(body)}`)
      await sleep(50)
    }
  }

  /** A connection that breaks is an answer, too. */
  async #post(
    node: ServedNode,
    cell: string,
    what: string,
    body: unknown,
    method: 'POST' | 'PUT' = 'POST',
  ): Promise<Answer> {
    const sent = node.request(method, `/v1/databases/${cell}/${what}`, body, this.#key)
    return this.#noted(await sent.catch(() => NO_ANSWER))
  }

  #noted(answer: Answer): Answer {
    const { status, body } = answer
    const name = `${status} ${body['code'] ?? ''}`.trim()
    if (status !== 200) this.answers[name] = (this.answers[name] ?? 0) + 1
    return answer
  }
}

function shapeOf(random: Random): Pick<Request, 'via' | 'isClosing'> {
  const via = random.pick(['executes', 'executes', 'batch', 'cursor'] as const)
  return { via, isClosing: via !== 'cursor' && random.chance(0.8) }
}

function insertsOf({ id, rows }: Pick<Transaction, 'id' | 'rows'>): object[] {
  const args = [
    { type: 'text', value: id },
    { type: 'integer', value: String(rows) },
  ]
  return Array.from({ length: rows }, () => ({ ...execute('INSERT INTO ledger VALUES (?, ?)'), args }))
}

function execute(sql: string): object {
  return { sql }
}
