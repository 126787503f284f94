import type { Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import type { Clock } from '../base/clock.ts'
import { TokenBuckets } from '../base/token-buckets.ts'
import { senderOf } from './address-counts.ts'

/** What parsing costs beside bytes, in units of about a microsecond of the event loop: each small chunk of a body, … */
export const CHUNK_COST = 1
/** … and each request behind another one on its connection. */
export const PIPELINED_COST = 4
/** A sender that costs more is costly: about a tenth of the event loop's time, or 2 ms at once. */
export const COSTS = { perSecond: 100_000, burst: 2_048 }
/** For so long after it cost too much. */
export const COSTLY_MS = 60_000
/** While so many requests of a costly sender wait behind others of their connections, no more is parsed of connections that have such, … */
export const PIPELINED_MAX = 64
/** … but a slice so often: they may wait for a client that takes no answer. */
export const FULL_MS = 10
/** Connections that go on when one of these requests begins. Each slice may bring 20 more. */
const GO_ON_AT_ONCE = 4
/** Costly senders that are looked at, whether their time is over, when another one becomes so. */
const FORGOTTEN_AT_ONCE = 2

interface Place {
  sender: string
  /** Among its sender's connections. */
  index: number
  /** Whether anything of it was ever charged. */
  isCharged: boolean
  /** Whether one of its requests has ever waited behind another one. */
  pipelines: boolean
}

/**
 * Charges to each sender what it costs to parse what it sends. Who sends thousands of tiny requests or chunks is costly for a while,
 * and is read in small slices: see {@link SlicedReads}. A sender is an account, from its first answer on a connection on;
 * before that, and if no key is valid, an address.
 */
export class ReadCosts {
  readonly #clock: Clock
  readonly #buckets: TokenBuckets
  /** By sender. Arrays, and not sets: V8 keeps the table that a busy `Set` has outgrown, and all that it held, for very long. */
  readonly #connections = new Map<string, Socket[]>()
  readonly #places = new WeakMap<Duplex, Place>()
  /** By sender; in the clock's monotonic time. */
  readonly #costlyUntil = new Map<string, number>()
  readonly #pipelined = new Map<string, number>()
  /** By sender, what goes on when fewer requests wait. Each has a timer. */
  readonly #full = new Map<string, (() => boolean)[]>()
  #onCostly: (connections: Iterable<Socket>, current: Duplex) => void = () => {}

  constructor(clock: Clock) {
    this.#clock = clock
    this.#buckets = new TokenBuckets(COSTS, clock)
  }

  /** Call it with every new connection. */
  add(socket: Socket): void {
    this.#assign(socket, senderOf(socket.remoteAddress))
    socket.once('close', () => this.#leave(socket))
  }

  /** The account that asks on a connection is known. No-op for one that was not added, or has closed. */
  identify(socket: Socket, account: string): void {
    const sender = this.#places.get(socket)?.sender
    if (sender === account || sender === undefined || socket.destroyed) return
    this.#leave(socket)
    this.#assign(socket, account)
    if (this.isCostly(account)) this.#onCostly([socket], socket)
  }

  senderOf(socket: Duplex): string {
    return this.#places.get(socket)?.sender ?? senderOf((socket as Socket).remoteAddress)
  }

  /** All that are open. */
  *[Symbol.iterator](): Iterator<Socket> {
    for (const own of this.#connections.values()) yield* own
  }

  isCostly(sender: string): boolean {
    const until = this.#costlyUntil.get(sender)
    if (until === undefined) return false
    if (until > this.#clock.monotonic()) return true
    this.#costlyUntil.delete(sender)
    return false
  }

  /**
   * Calls back when a sender becomes costly, with its connections, and when a costly one has another connection.
   *
   * @param listener its second argument is the connection of which something may be in the parser now
   */
  onCostly(listener: (connections: Iterable<Socket>, current: Duplex) => void): void {
    this.#onCostly = listener
  }

  /** No-op for a connection that was not added: nobody slices those of a server that is not ours. */
  charge(socket: Duplex, cost: number): void {
    const place = this.#places.get(socket)
    if (place === undefined) return
    place.isCharged = true
    const { sender } = place
    this.#buckets.take(sender, cost)
    if (this.#buckets.waitMs(sender, 0) === 0) return
    const before = this.isCostly(sender)
    this.#costlyUntil.delete(sender)
    this.#costlyUntil.set(sender, this.#clock.monotonic() + COSTLY_MS)
    if (before) this.#onCostly([], socket)
    else {
      this.#forgetOldest()
      this.#onCostly(this.#connections.get(sender) ?? [], socket)
    }
  }

  /** A request has come that waits behind another one. @param sender of its connection */
  pipelined(sender: string, socket: Duplex): void {
    const place = this.#places.get(socket)
    if (place === undefined) return
    place.pipelines = true
    this.#pipelined.set(sender, this.#waitingOf(sender) + 1)
    this.charge(socket, PIPELINED_COST)
  }

  /** So many of those have begun, or are gone. */
  begun(sender: string, count: number): void {
    const left = this.#waitingOf(sender) - count
    if (left > 0) this.#pipelined.set(sender, left)
    else this.#pipelined.delete(sender)
    this.#goOn(sender, Math.min(PIPELINED_MAX - left, GO_ON_AT_ONCE))
  }

  /** Whether a connection has ever sent tiny chunks, or requests that waited behind others. */
  isCharged(socket: Duplex): boolean {
    return this.#places.get(socket)?.isCharged === true
  }

  /**
   * @param goOn called when one slice may be parsed; it returns false if its connection has nothing to parse any more
   * @returns false if too many requests of the connection's sender wait for others, and it is one of those that have them wait
   */
  mayParse(socket: Duplex, goOn: () => boolean): boolean {
    const sender = this.senderOf(socket)
    if (this.#places.get(socket)?.pipelines !== true || this.#waitingOf(sender) < PIPELINED_MAX) return true
    const others = this.#full.get(sender)
    if (others !== undefined) others.push(goOn)
    else {
      this.#full.set(sender, [goOn])
      this.#goOnLater(sender)
    }
    return false
  }

  #goOnLater(sender: string): void {
    this.#clock.setTimer(() => {
      this.#goOn(sender, 1)
      if (this.#full.get(sender)?.length === 0) this.#full.delete(sender)
      else this.#goOnLater(sender)
    }, FULL_MS)
  }

  #goOn(sender: string, count: number): void {
    const waiting = this.#full.get(sender)
    for (let gone = 0; gone < count; ) {
      const goOn = waiting?.shift()
      if (goOn === undefined) return
      if (goOn()) gone++
    }
  }

  #waitingOf(sender: string): number {
    return this.#pipelined.get(sender) ?? 0
  }

  #assign(socket: Socket, sender: string): void {
    const own = this.#connections.get(sender)
    const { isCharged = false, pipelines = false } = this.#places.get(socket) ?? {}
    this.#places.set(socket, { sender, index: own?.length ?? 0, isCharged, pipelines })
    if (own === undefined) this.#connections.set(sender, [socket])
    else own.push(socket)
  }

  /** The last one takes its place. */
  #leave(socket: Socket): void {
    const place = this.#places.get(socket)
    const own = place && this.#connections.get(place.sender)
    const last = own?.pop()
    if (place === undefined || own === undefined || last === undefined) return
    if (own.length === 0) this.#connections.delete(place.sender)
    if (last === socket) return
    own[place.index] = last
    const moved = this.#places.get(last)
    if (moved !== undefined) moved.index = place.index
  }

  #forgetOldest(): void {
    const now = this.#clock.monotonic()
    let looked = 0
    for (const [sender, until] of this.#costlyUntil) {
      if (looked++ === FORGOTTEN_AT_ONCE || until > now) return
      this.#costlyUntil.delete(sender)
    }
  }
}
