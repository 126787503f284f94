import { Budget } from '../../base/fairness/budget.ts'
import { COUNT, type Shape } from '../../base/options/option-shapes.ts'

/** Bytes that a node holds for its clients, and what one account may have of them. */
export interface MemoryLimits {
  /** Of request bodies, from their first byte to the answer. */
  bodiesTotal: number
  bodiesPerAccount: number
  /** Of answers that clients have not taken. */
  unsentTotal: number
  unsentPerAccount: number
}

const MIB = 1_048_576
export const DEFAULT_MEMORY_LIMITS: MemoryLimits = {
  bodiesTotal: 256 * MIB,
  bodiesPerAccount: 64 * MIB,
  unsentTotal: 256 * MIB,
  unsentPerAccount: 64 * MIB,
}

export const MEMORY_LIMITS: Shape<MemoryLimits> = {
  bodiesTotal: COUNT,
  bodiesPerAccount: COUNT,
  unsentTotal: COUNT,
  unsentPerAccount: COUNT,
}

/** What most requests stay below: it is bounded by the number of connections, and charging it would cost each of them. */
const FREE_BYTES = 16_384
const RETRY_AFTER_MS = 1_000

/** Bytes that are in use, and that may be. */
export type MemoryUse = Readonly<Record<'bodies' | 'unsent', { used: number; total: number }>>

export class MemoryBudgets {
  readonly bodies: Budget
  readonly unsent: Budget

  constructor(limits: MemoryLimits) {
    this.bodies = new Budget({
      settings: { total: 'memory.bodiesTotal', perAccount: 'memory.bodiesPerAccount' },
      unit: 'bytes of request bodies',
      total: limits.bodiesTotal,
      perAccount: limits.bodiesPerAccount,
      retryAfterMs: RETRY_AFTER_MS,
    })
    this.unsent = new Budget({
      settings: { total: 'memory.unsentTotal', perAccount: 'memory.unsentPerAccount' },
      unit: 'bytes of answers that were not taken',
      total: limits.unsentTotal,
      perAccount: limits.unsentPerAccount,
      retryAfterMs: RETRY_AFTER_MS,
    })
  }

  get use(): MemoryUse {
    return { bodies: this.bodies.use, unsent: this.unsent.use }
  }

  /** Whether there is room for an answer. @throws `rate_limited`, `busy` */
  checkUnsent(account: string): void {
    if (this.unsent.used === 0) return
    this.unsent.take(account, FREE_BYTES)
    this.unsent.release(account, FREE_BYTES)
  }
}

/** The bytes of one body. Small ones are free; of the others each byte is charged before it is kept. */
export class BodyCharge {
  readonly #budget: Budget
  readonly #account: string
  #charged = 0

  constructor(budget: Budget, account: string) {
    this.#budget = budget
    this.#account = account
  }

  /** @param bytes how long the body is, or has become. @throws `rate_limited`, `busy` */
  readonly grow = (bytes: number): void => {
    if (bytes <= FREE_BYTES || bytes <= this.#charged) return
    this.#budget.take(this.#account, bytes - this.#charged)
    this.#charged = bytes
  }

  release(): void {
    if (this.#charged > 0) this.#budget.release(this.#account, this.#charged)
    this.#charged = 0
  }
}

/** The bytes of one answer, from when it is ready until its client has taken it. Small ones are free. */
export class UnsentCharge {
  readonly #budget: Budget
  readonly #account: string
  #bytes = 0

  /** @throws `rate_limited`, `busy` */
  constructor(budget: Budget, account: string, bytes: number) {
    this.#budget = budget
    this.#account = account
    if (bytes <= FREE_BYTES) return
    budget.take(account, bytes)
    this.#bytes = bytes
  }

  get bytes(): number {
    return this.#bytes
  }

  /** Releases all but what the client has still to take. */
  keep(bytes: number): void {
    const kept = bytes <= FREE_BYTES ? 0 : Math.min(bytes, this.#bytes)
    if (kept < this.#bytes) this.#budget.release(this.#account, this.#bytes - kept)
    this.#bytes = kept
  }
}
