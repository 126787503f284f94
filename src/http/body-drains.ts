import type { IncomingMessage } from 'node:http'
import { AccountQueue } from '../base/account-queue.ts'
import type { Clock, Timer } from '../base/clock.ts'
import { releaseBytes } from '../base/release-bytes.ts'
import { TokenBuckets } from '../base/token-buckets.ts'
import { ownsBody } from './body-owner.ts'
import { PIECE_BYTES, ReadPace } from './read-pace.ts'

/** After an early answer, this much of what the client still sends is read and dropped before the connection closes. */
export const DRAIN_BYTES_MAX = 16_777_216
export const DRAIN_MS_MAX = 5_000
/** Bodies that are read at the same time: every turn of the event loop reads a piece of some. */
export const DRAINS_AT_ONCE = 16
/** A body gives its place to the next one that waits after so many bytes, or so many milliseconds. */
const PLACE_BYTES = 262_144
export const PLACE_MS = 20
/** Of the bodies of one sender, bytes that are read per second all the time, and at once after a pause. Each piece counts {@link PIECE_BYTES} more. */
export const DRAIN_RATE = { perSecond: DRAIN_BYTES_MAX, burst: 4 * DRAIN_BYTES_MAX }
/**
 * Bodies that wait, of one sender and of all. Of others the connection is cut at once; one body of each sender may still wait beyond
 * the number of all, up to twice that.
 */
export const WAITING_MAX = { ofSender: 1_024, total: 4_096 }
/** How often it looks whose time is over, and whose senders may have more read. */
export const CHECK_MS = 10
/** Bodies that are cut at a time: those of hundreds of requests that came together are over together. */
export const CUTS_AT_ONCE = 8

/**
 * Reads the rest of refused requests' bodies and drops it: most clients send all of a body before they read the answer, and see a
 * reset if the connection closes first. Few bodies are read at the same time, and of each sender so much per second; the others wait
 * unread, and for their answers. Hundreds that an account sends although it is refused must not keep the event loop busy: answered at
 * once, they would be sent again as fast as the node can refuse them.
 */
export class BodyDrains {
  readonly #clock: Clock
  readonly #shutdown: AbortSignal | undefined
  readonly #bytes: TokenBuckets
  /** By sender. */
  readonly #waiting = new AccountQueue<Drain>()
  /** All, in the order in which they came. */
  readonly #open = new Map<IncomingMessage, Drain>()
  #taken = 0
  #hasCheck = false

  /** @param shutdown aborted when connections should end with what is under way on them */
  constructor(clock: Clock, shutdown?: AbortSignal) {
    this.#clock = clock
    this.#shutdown = shutdown
    this.#bytes = new TokenBuckets(DRAIN_RATE, clock)
  }

  /**
   * @param sender the account; of a request that has none, the address
   * @param answer called once, when the answer may go out; not if the client has gone
   * @returns false if the connection has to be cut: the client has gone, sent too much or took too long, or too many wait
   */
  drain(request: IncomingMessage, sender: string, answer: () => void): Promise<boolean> {
    if (request.destroyed) return Promise.resolve(false)
    if (request.complete || this.#isFull(sender)) {
      answer()
      if (request.complete) request.resume()
      return Promise.resolve(request.complete)
    }
    return new Promise((onEnd) => {
      const drain: Drain = new Drain(request, this.#clock, {
        sender,
        answer,
        read: (bytes) => this.#bytes.take(sender, bytes),
        rests: () => {
          this.#taken--
          this.#waiting.add(sender, drain)
          this.#fill()
        },
        ended: (drained, hadPlace) => {
          this.#open.delete(request)
          this.#waiting.remove(sender, drain)
          if (hadPlace) this.#taken--
          onEnd(drained)
          this.#fill()
        },
      })
      this.#open.set(request, drain)
      this.#waiting.add(sender, drain)
      this.#fill()
      this.#checkLater()
    })
  }

  /** Whether a connection ends after a body that was drained. The answer may have gone out before that was known. */
  get endConnections(): boolean {
    return this.#shutdown?.aborted ?? false
  }

  /** Has the answer go out now, if it waits: its connection is about to end. */
  answer(request: IncomingMessage): void {
    this.#open.get(request)?.answer()
  }

  #isFull(sender: string): boolean {
    const { size } = this.#waiting
    const own = this.#waiting.sizeOf(sender)
    return own >= WAITING_MAX.ofSender || size >= WAITING_MAX.total * (own > 0 ? 1 : 2)
  }

  #fill(): void {
    while (this.#taken < DRAINS_AT_ONCE) {
      const next = this.#waiting.take((sender) => this.#bytes.waitMs(sender) === 0)
      if (next === undefined) return
      this.#taken++
      next.read()
    }
  }

  #checkLater(): void {
    if (this.#hasCheck || this.#open.size === 0) return
    this.#hasCheck = true
    this.#clock.setTimer(() => {
      this.#hasCheck = false
      this.#cutOverdue()
      this.#fill()
      this.#checkLater()
    }, CHECK_MS)
  }

  #cutOverdue(): void {
    const begunBefore = this.#clock.monotonic() - DRAIN_MS_MAX
    let cuts = 0
    for (const oldest of this.#open.values()) {
      if (oldest.begunAt > begunBefore || cuts++ === CUTS_AT_ONCE) return
      oldest.cut()
    }
  }
}

interface DrainEvents {
  sender: string
  answer(): void
  read(bytes: number): void
  /** It gives up its place, and needs another one. */
  rests(): void
  ended(drained: boolean, hadPlace: boolean): void
}

/** One body. */
class Drain {
  readonly #request: IncomingMessage
  readonly #clock: Clock
  readonly #events: DrainEvents
  /** In the clock's monotonic time. */
  readonly begunAt: number
  readonly #pace: ReadPace
  #size = 0
  /** What it had read when it got its place. */
  #sizeBefore = 0
  #place: Timer | undefined
  #isAnswered = false
  /** All of it has come, before it had its first place: what it waits for now is its answer. */
  #isWhole = false
  #isOver = false

  constructor(request: IncomingMessage, clock: Clock, events: DrainEvents) {
    this.#request = request
    this.#clock = clock
    this.#events = events
    this.#pace = new ReadPace(request, events.sender, () => this.#place !== undefined)
    this.begunAt = clock.monotonic()
    this.#stopReading()
    request
      .on('data', this.#onData)
      .on('end', this.#onWhole)
      .on('error', this.#onGone)
      .on('close', this.#onGone)
  }

  /** It has a place, and reads until it gives that up. */
  read(): void {
    this.#sizeBefore = this.#size
    this.#place = this.#clock.setTimer(() => this.#rest(), PLACE_MS)
    this.answer()
    if (this.#isWhole) {
      this.#end(true)
      return
    }
    if (ownsBody(this.#request)) this.#request.readOn()
    this.#request.resume()
  }

  /** Its time is over. */
  cut(): void {
    this.answer()
    this.#end(this.#isWhole)
  }

  answer(): void {
    if (this.#isAnswered) return
    this.#isAnswered = true
    this.#events.answer()
  }

  readonly #onData = (chunk: Buffer): void => {
    const { length } = chunk
    if (ownsBody(this.#request)) releaseBytes(chunk)
    this.#size += length
    this.#events.read(length + PIECE_BYTES)
    if (this.#size > DRAIN_BYTES_MAX) this.#end(false)
    else if (this.#size - this.#sizeBefore >= PLACE_BYTES) this.#rest()
    else if (this.#place !== undefined) this.#pace.took(length)
  }

  readonly #onWhole = (): void => {
    const request = this.#request
    if (this.#isAnswered || request.socket.destroyed) {
      this.#end(this.#isAnswered)
      return
    }
    this.#isWhole = true
    // A request closes when it is whole. From here on, its connection says whether the client has gone.
    request.off('close', this.#onGone)
    request.socket.once('close', this.#onGone)
  }

  readonly #onGone = (): void => this.#end(false)

  /** Lets the others read. */
  #rest(): void {
    if (!this.#leave()) return
    this.#stopReading()
    this.#events.rests()
  }

  /** Of hundreds that wait, the piece of each that has come would take tens of megabytes: where it can be, it is dropped. */
  #stopReading(): void {
    const request = this.#request
    if (!ownsBody(request)) request.pause()
    else {
      request.stopReading()
      request.resume()
    }
  }

  /** @returns false if it has no place */
  #leave(): boolean {
    if (this.#place === undefined) return false
    this.#place.cancel()
    this.#place = undefined
    return true
  }

  #end(drained: boolean): void {
    if (this.#isOver) return
    this.#isOver = true
    const request = this.#request
    request.off('data', this.#onData).off('end', this.#onWhole)
    request.off('error', this.#onGone).off('close', this.#onGone)
    if (this.#isWhole) request.socket.off('close', this.#onGone)
    // Without a listener, an error that comes later would end the process.
    request.on('error', () => {})
    this.#events.ended(drained, this.#leave())
  }
}
