import type { IncomingMessage } from 'node:http'
import type { Clock, Timer } from '../base/clock.ts'
import { releaseBytes } from '../base/release-bytes.ts'
import { ownsBody } from './body-owner.ts'
import { ReadPace } from './read-pace.ts'

/** After an early answer, this much of what the client still sends is read and dropped before the connection closes. */
export const DRAIN_BYTES_MAX = 16_777_216
export const DRAIN_MS_MAX = 5_000
/** Bodies that are read at the same time: every turn of the event loop reads a piece of each. */
export const DRAINS_AT_ONCE = 16
/** A body gives its place to the next one that waits after so many bytes, or so many milliseconds. */
const PLACE_BYTES = 262_144
export const PLACE_MS = 20

/**
 * Reads the rest of a request's body and drops it: most clients send all of it before they read the answer, and see a
 * reset if the connection closes first. Few bodies are read at the same time, and the others wait unread: hundreds that an
 * account sends although it is refused must not keep the event loop busy.
 *
 * @returns false if the client sent too much or took too long, so that the connection has to be cut
 */
export function drainRest(request: IncomingMessage, clock: Clock): Promise<boolean> {
  if (request.complete || request.destroyed) {
    request.resume()
    return Promise.resolve(!request.destroyed)
  }
  request.pause()
  return new Promise((resolve) => places.add(new Drain(request, clock, resolve)))
}

class Drain {
  readonly #request: IncomingMessage
  readonly #clock: Clock
  readonly #onEnd: (drained: boolean) => void
  readonly #deadline: Timer
  readonly #pace: ReadPace
  #size = 0
  /** What it had read when it got its place. */
  #sizeBefore = 0
  #place: Timer | undefined
  #isOver = false

  constructor(request: IncomingMessage, clock: Clock, onEnd: (drained: boolean) => void) {
    this.#request = request
    this.#clock = clock
    this.#onEnd = onEnd
    this.#pace = new ReadPace(request, '', () => this.#place !== undefined)
    this.#deadline = clock.setTimer(() => this.#end(false), DRAIN_MS_MAX)
    request
      .on('data', this.#onData)
      .on('end', this.#onWhole)
      .on('error', this.#onGone)
      .on('close', this.#onGone)
    // Its listener would have made it flow.
    request.pause()
  }

  get isOver(): boolean {
    return this.#isOver
  }

  /** It has a place, and reads until it gives that up. */
  read(): void {
    this.#sizeBefore = this.#size
    this.#place = this.#clock.setTimer(() => this.#rest(), PLACE_MS)
    this.#request.resume()
  }

  readonly #onData = (chunk: Buffer): void => {
    const { length } = chunk
    if (ownsBody(this.#request)) releaseBytes(chunk)
    this.#size += length
    if (this.#size > DRAIN_BYTES_MAX) this.#end(false)
    else if (this.#size - this.#sizeBefore >= PLACE_BYTES) this.#rest()
    else this.#pace.took(length)
  }

  readonly #onWhole = (): void => this.#end(true)

  readonly #onGone = (): void => this.#end(false)

  /** Lets the others read. */
  #rest(): void {
    if (this.#place === undefined) return
    this.#request.pause()
    this.#leave()
    places.add(this)
  }

  #leave(): void {
    if (this.#place === undefined) return
    this.#place.cancel()
    this.#place = undefined
    places.free()
  }

  #end(drained: boolean): void {
    if (this.#isOver) return
    this.#isOver = true
    this.#deadline.cancel()
    const request = this.#request
    request.off('data', this.#onData).off('end', this.#onWhole)
    request.off('error', this.#onGone).off('close', this.#onGone)
    // Without a listener, an error that comes later would end the process.
    request.on('error', () => {})
    this.#leave()
    this.#onEnd(drained)
  }
}

/** The drains of this process, which has one event loop. */
const places = {
  waiting: [] as Drain[],
  taken: 0,

  add(drain: Drain): void {
    this.waiting.push(drain)
    this.fill()
  },

  free(): void {
    this.taken--
    this.fill()
  },

  fill(): void {
    while (this.taken < DRAINS_AT_ONCE) {
      const next = this.waiting.shift()
      if (next === undefined) return
      if (next.isOver) continue
      this.taken++
      next.read()
    }
  },
}
