import { median } from '../side-by-side.ts'
import { pause, Tenant } from './tenant.ts'

const PAUSE_MS = 5
/** At least so often a user asks who is not kept waiting. */
const EVERY_MS = 10
const WARM_UP_REQUESTS = 100
const ANSWER_MS_MAX = 60_000

export interface Measured {
  requests: number
  p50: number
  p99: number
  max: number
  /** By answer. */
  failures: Map<string, number>
}

/** Another account's user, who asks for a little every few milliseconds: entries and rows of one cell, durably written. */
export class Neighbour {
  readonly cell: string
  readonly #tenant: Tenant
  #turn = 0

  private constructor(tenant: Tenant, cell: string) {
    this.#tenant = tenant
    this.cell = cell
  }

  static async create(port: number, key: string): Promise<Neighbour> {
    const tenant = new Tenant(port, key, 1)
    const [cell] = (await tenant.newCells(1)) as [string]
    await tenant.must(cell, 'CREATE TABLE t (turn)')
    const neighbour = new Neighbour(tenant, cell)
    await neighbour.warmUp()
    return neighbour
  }

  async warmUp(): Promise<void> {
    // The server closes a connection that idles, and perhaps just when it is used again.
    this.#tenant.close()
    for (let i = 0; i < WARM_UP_REQUESTS; i++) await this.#ask()
  }

  async measure(ms: number): Promise<Measured> {
    // As before the warm-up.
    this.#tenant.close()
    const times: number[] = []
    let requests = 0
    const failures = new Map<string, number>()
    const until = performance.now() + ms
    while (performance.now() < until) {
      const started = performance.now()
      const answer = await this.#ask()
      // Others would have asked meanwhile, and waited for the rest of the time: one long wait is not one slow request.
      const waited = performance.now() - started
      for (let left = 0; left === 0 || left < waited; left += EVERY_MS) times.push(waited - left)
      requests++
      if (answer !== '200 ok') failures.set(answer, (failures.get(answer) ?? 0) + 1)
      await pause(PAUSE_MS)
    }
    times.sort((a, b) => a - b)
    return {
      requests,
      p50: median(times),
      p99: times[Math.floor(times.length * 0.99)] ?? Number.NaN,
      max: times.at(-1) ?? Number.NaN,
      failures,
    }
  }

  /** Insertions that were made more than once. */
  async twice(): Promise<number> {
    const { json } = await this.#tenant.sql(this.cell, 'SELECT count(*) - count(DISTINCT turn) AS n FROM t')
    return (json as { rows: [{ n: number }] }).rows[0].n
  }

  close(): void {
    this.#tenant.close()
  }

  async #ask(): Promise<string> {
    const late = new AbortController()
    try {
      const asked = this.#next().then(({ status, code }) => `${status} ${code}`)
      return await Promise.race([asked, pause(ANSWER_MS_MAX, late.signal).then(() => 'no answer')])
    } catch (error) {
      return (error as Error).message
    } finally {
      late.abort()
    }
  }

  #next() {
    const turn = this.#turn++
    const entry = `/databases/${this.cell}/kv/k`
    switch (turn % 8) {
      case 0:
      case 4:
        return this.#tenant.ask('PUT', entry, { value: `v${turn}` })
      case 2:
        return this.#tenant.sql(this.cell, 'SELECT turn FROM t WHERE rowid = ?', [turn % 100])
      case 6:
        return this.#tenant.sql(this.cell, 'INSERT INTO t VALUES (?)', [turn])
      default:
        return this.#tenant.ask('GET', entry)
    }
  }
}
