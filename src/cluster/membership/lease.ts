import type { Clock } from '../../base/clock.ts'

/** How long what vouches for a node holds. */
export interface LeaseTimes {
  /** Of a beat: so long does a watcher wait for the next one. Milliseconds. */
  ttlMs: number
  /** Of a clean look at the node's own fence: so long does a taker wait after it has put one. Milliseconds. */
  fenceMs: number
}

/** The fence's part of the time to live: 3 s of the default 6 s. */
const FENCE_SHARE = 0.5
/** What a node holds back of each lease, for clocks that run at other speeds. */
const MARGIN_SHARE = 0.05

export function leaseTimes(ttlMs: number): LeaseTimes {
  return { ttlMs, fenceMs: ttlMs * FENCE_SHARE }
}

/** An instant by all clocks of a machine: each of them can stand still or jump, and nobody knows which one did. */
export interface Moment {
  monotonic: number
  wall: number
  sinceBoot: number
}

export function momentOf(clock: Clock): Moment {
  return { monotonic: clock.monotonic(), wall: clock.now(), sinceBoot: clock.sinceBoot() }
}

/** Milliseconds since then, by the clock that counts most. */
function elapsedMs(since: Moment, now: Moment): number {
  return Math.max(now.monotonic - since.monotonic, now.wall - since.wall, now.sinceBoot - since.sinceBoot)
}

/**
 * The right of a node to answer. PostgreSQL vouches for it with a beat, the bucket with a clean look at the node's own fence;
 * one of them is enough, and a take-over needs both (docs/decisions/0037). Each counts from the *start* of the call.
 */
export class Lease {
  readonly #clock: Clock
  readonly #times: LeaseTimes
  #beat: Moment | undefined
  #look: Moment | undefined
  /** PostgreSQL may have forgotten what it had promised: only a look that begins later shows that this node was not taken over. */
  #distrustedAt: Moment | undefined
  #hasEnded = false

  constructor(clock: Clock, times: LeaseTimes) {
    this.#clock = clock
    this.#times = times
  }

  /** A beat that began then was accepted. */
  beaten(startedAt: Moment): void {
    if (this.#distrustedAt === undefined) this.#beat = later(this.#beat, startedAt)
  }

  /** A look at the fence that began then found no newer one. */
  looked(startedAt: Moment): void {
    this.#look = later(this.#look, startedAt)
    if (this.#distrustedAt !== undefined && startedAt.monotonic >= this.#distrustedAt.monotonic)
      this.#distrustedAt = undefined
  }

  /** The server that answers is another one than before: no beat counts until a look has begun after this, and was clean. */
  distrustBeats(): void {
    this.#distrustedAt = momentOf(this.#clock)
  }

  /** Nothing vouches for this node any more. */
  end(): void {
    this.#hasEnded = true
  }

  isValid(): boolean {
    return this.leftMs() > 0
  }

  /** Milliseconds for which the node may still answer; 0 without a lease. */
  leftMs(): number {
    if (this.#hasEnded) return 0
    const { ttlMs, fenceMs } = this.#times
    const now = momentOf(this.#clock)
    return Math.max(0, left(this.#beat, ttlMs, now), left(this.#look, fenceMs, now))
  }
}

function left(since: Moment | undefined, lengthMs: number, now: Moment): number {
  return since === undefined ? 0 : lengthMs * (1 - MARGIN_SHARE) - elapsedMs(since, now)
}

/** Answers can come in another order than their calls began. */
function later(known: Moment | undefined, moment: Moment): Moment {
  return known !== undefined && known.monotonic > moment.monotonic ? known : moment
}
