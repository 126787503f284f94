import type { CellErrorCode } from '../../../errors.ts'

/** The upper ends of the buckets, in milliseconds: from a read out of memory to the longest statement. */
export const LATENCY_BUCKETS_MS: readonly number[] = [
  0.5, 1, 2.5, 5, 10, 25, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000,
]

/** The requests of one method and route. */
export interface RouteRequests {
  /** `other` for a method that the route does not take. */
  method: string
  /** The template, `/v1/databases/{id}/sql`; `none` for a path that is no route. */
  route: string
  byStatus: readonly { status: number; count: number }[]
  /** Requests in each bucket alone, and at the end those that took longer. */
  buckets: readonly number[]
  totalMs: number
}

/** A request with SQL that took long, its wait for a worker included. */
export interface SlowStatement {
  /** When it was answered, in epoch milliseconds. */
  at: number
  ms: number
  route: string
  status: number
  accountId: string | undefined
  cellId: string | undefined
  requestId: string
}

/** Longer than what a tenant should wait for: a shorter bound would list ordinary work of a busy node. */
export const SLOW_MS = 500
/** Memory is bounded. */
const SLOW_KEPT = 20
const SQL_ROUTE = /\/(sql|batch)$/

interface Counts {
  readonly byStatus: Map<number, number>
  readonly buckets: number[]
  totalMs: number
}

const NO_ROUTE = 'none'
const OTHER_METHOD = 'other'

/** What became of requests for another node's cells. */
export const FORWARD_OUTCOMES = ['answered', 'refused', 'lost'] as const
export type ForwardOutcome = (typeof FORWARD_OUTCOMES)[number]

/** Requests by route, and refusals by code. All labels come from the code, so that their number is bounded. */
export class RequestCounts {
  readonly #routes = new Map<string, Map<string, Counts>>()
  readonly #refusals = new Map<CellErrorCode, number>()
  readonly #slow: SlowStatement[] = []
  readonly #forwarded = new Map<ForwardOutcome, { count: number; totalMs: number }>()

  /** @param route null for none @param isKnown whether the route takes the method */
  answered(route: string | null, method: string, isKnown: boolean, status: number, ms: number): void {
    const counts = this.#counts(route ?? NO_ROUTE, isKnown ? method : OTHER_METHOD)
    counts.byStatus.set(status, (counts.byStatus.get(status) ?? 0) + 1)
    let bucket = 0
    while (bucket < LATENCY_BUCKETS_MS.length && ms > (LATENCY_BUCKETS_MS[bucket] as number)) bucket++
    counts.buckets[bucket] = (counts.buckets[bucket] as number) + 1
    counts.totalMs += ms
  }

  /** Keeps it if it is a slow one. */
  noteSlow(request: Omit<SlowStatement, 'route'> & { route: string | null }): void {
    const { route } = request
    if (route === null || request.ms < SLOW_MS || !SQL_ROUTE.test(route)) return
    this.#slow.unshift({ ...request, route })
    this.#slow.length = Math.min(this.#slow.length, SLOW_KEPT)
  }

  /** The newest first. */
  get slowStatements(): readonly SlowStatement[] {
    return this.#slow
  }

  refused(code: CellErrorCode): void {
    this.#refusals.set(code, (this.#refusals.get(code) ?? 0) + 1)
  }

  /** A request was sent on to the node that has its cell: `answered` there, `refused` with nothing done, or `lost`. */
  forwarded(outcome: ForwardOutcome, ms: number): void {
    const { count, totalMs } = this.forwards(outcome)
    this.#forwarded.set(outcome, { count: count + 1, totalMs: totalMs + ms })
  }

  forwards(outcome: ForwardOutcome): { count: number; totalMs: number } {
    return this.#forwarded.get(outcome) ?? { count: 0, totalMs: 0 }
  }

  routes(): RouteRequests[] {
    return [...this.#routes].flatMap(([route, methods]) =>
      [...methods].map(([method, { byStatus, buckets, totalMs }]) => ({
        method,
        route,
        byStatus: [...byStatus].map(([status, count]) => ({ status, count })),
        buckets: [...buckets],
        totalMs,
      })),
    )
  }

  refusals(): { code: CellErrorCode; count: number }[] {
    return [...this.#refusals].map(([code, count]) => ({ code, count }))
  }

  #counts(route: string, method: string): Counts {
    let methods = this.#routes.get(route)
    if (methods === undefined) {
      methods = new Map()
      this.#routes.set(route, methods)
    }
    let counts = methods.get(method)
    if (counts === undefined) {
      const buckets = Array.from({ length: LATENCY_BUCKETS_MS.length + 1 }, () => 0)
      counts = { byStatus: new Map(), buckets, totalMs: 0 }
      methods.set(method, counts)
    }
    return counts
  }
}
