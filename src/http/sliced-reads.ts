import type { Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import { LoopTurns } from '../base/loop-turns.ts'
import { releaseBytes } from '../base/release-bytes.ts'
import type { ReadCosts } from './read-costs.ts'

/** It may hold 20 tiny requests. If its client goes away meanwhile, Node.js makes an error of each. */
export const SLICE_BYTES = 512
/** Slices that are parsed in one turn of the event loop: about a millisecond of work, … */
export const SLICES_PER_TURN = 8
/** … and connections that are read again after they were paused. */
const RESUMED_PER_TURN = 16

/** What is parsed of the costly senders of this process, which has one event loop. */
const slices = new LoopTurns(SLICES_PER_TURN)
const resumptions = new LoopTurns(RESUMED_PER_TURN)

/**
 * Has the connections of costly senders parsed in slices, a few in each turn of the event loop. Node.js reads 64 KiB of a connection
 * at a time and parses them in one go. These may hold 2,500 requests or 10,000 chunks of a body, which take 10 to 30 ms; and of
 * hundreds of connections that are ready together, it would parse one after the other in a single turn.
 */
export class SlicedReads {
  readonly #costs: ReadCosts
  readonly #sliced = new WeakMap<Duplex, SlicedRead>()

  constructor(costs: ReadCosts) {
    this.#costs = costs
    costs.onCostly((connections, current) => {
      for (const socket of connections) if (socket !== current) this.#sliceLater(socket)
      // Its parser is at work.
      setImmediate(() => this.#slice(current as Socket))
    })
  }

  /** Call it with every new connection. */
  add(socket: Socket): void {
    // It may have to wait for its first read, and is paused then.
    if (this.#costs.isCostly(this.#costs.senderOf(socket))) process.nextTick(() => this.#slice(socket))
  }

  /** Node.js has given its parser back. */
  release(socket: Duplex): void {
    this.#sliced.get(socket)?.release()
  }

  /** What is already there of it is not read in this turn: of what is ready, Node.js reads what it still may when it comes to it. */
  #sliceLater(socket: Socket): void {
    const isRead = !socket.isPaused()
    if (this.#sliced.has(socket) || socket.destroyed) return
    if (isRead) socket.pause()
    this.#slice(socket)
    if (!isRead) return
    resumptions.add(this.#costs.senderOf(socket), () => {
      socket.resume()
      return !socket.destroyed
    })
  }

  #slice(socket: Socket): void {
    // What Node.js has stopped to read by itself, it alone begins to read again.
    if (socket.isPaused()) socket.once('resume', () => this.#sliceNow(socket))
    else this.#sliceNow(socket)
  }

  #sliceNow(socket: Socket): void {
    if (this.#sliced.has(socket) || socket.destroyed) return
    const read = SlicedRead.of(socket, this.#costs)
    if (read !== undefined) this.#sliced.set(socket, read)
  }
}

type Parse = (bytes: Buffer) => void

const NOTHING = Buffer.alloc(0)

/** One connection. */
class SlicedRead {
  readonly #socket: Socket
  readonly #costs: ReadCosts
  readonly #parse: Parse
  readonly #push: Socket['push']
  /** What came, and how much of it is parsed. While there is more, the connection is not read. */
  #bytes: Buffer = NOTHING
  #parsed = 0
  /** As its users see it. */
  #isPaused = false
  /** The client has sent its last, and Node.js does not know it yet. */
  #isOver = false
  #isScheduled = false
  /** It has waited until its sender had fewer requests that wait. */
  #hasTurn = false

  /** @returns undefined if nothing of Node.js listens to what comes, as on a connection that was handed over */
  static of(socket: Socket, costs: ReadCosts): SlicedRead | undefined {
    const [parse] = socket.listeners('data')
    return parse === undefined ? undefined : new SlicedRead(socket, costs, parse as Parse)
  }

  constructor(socket: Socket, costs: ReadCosts, parse: Parse) {
    this.#socket = socket
    this.#costs = costs
    this.#parse = parse
    // With another listener, Node.js hands over what comes; otherwise its parser reads the connection by itself.
    socket.on('data', this.#take)
    socket.off('data', parse)
    socket.once('close', () => this.#forget())
    const { pause, push, resume } = socket
    socket.pause = () => {
      this.#isPaused = true
      return pause.call(socket)
    }
    socket.resume = () => {
      this.#isPaused = false
      if (this.#hasBytes) this.#feedLater()
      else {
        resume.call(socket)
        queueMicrotask(() => this.#endIfOver())
      }
      return socket
    }
    this.#push = push
    socket.push = (bytes, encoding) => {
      if (bytes !== null) return push.call(socket, bytes, encoding)
      this.#isOver = true
      this.#endIfOver()
      return false
    }
  }

  release(): void {
    this.#socket.off('data', this.#take)
    this.#forget()
  }

  get #hasBytes(): boolean {
    return this.#parsed < this.#bytes.length
  }

  #forget(): void {
    releaseBytes(this.#bytes)
    this.#bytes = NOTHING
    this.#parsed = 0
  }

  readonly #take = (bytes: Buffer): void => {
    if (bytes.length <= SLICE_BYTES && !this.#hasBytes) {
      this.#parse.call(this.#socket, bytes)
      this.#goOnUnlessPaused()
      return
    }
    this.#bytes = this.#hasBytes ? Buffer.concat([this.#bytes.subarray(this.#parsed), bytes]) : bytes
    this.#parsed = 0
    this.#socket.pause()
    this.#socket.resume()
  }

  /** Node.js would take the connection for ended while something of it waits, also if it is paused. */
  #endIfOver(): void {
    const waits = this.#isPaused || this.#hasBytes || this.#socket.readableLength > 0
    if (!this.#isOver || waits) return
    this.#isOver = false
    this.#push.call(this.#socket, null)
  }

  #feedLater(): void {
    if (this.#isScheduled) return
    this.#isScheduled = true
    slices.add(this.#costs.senderOf(this.#socket), this.#feed)
  }

  readonly #feed = (): boolean => {
    this.#isScheduled = false
    if (this.#isPaused || !this.#hasBytes || this.#socket.destroyed) return false
    if (!this.#mayParse()) return false
    const slice = this.#bytes.subarray(this.#parsed, this.#parsed + SLICE_BYTES)
    this.#parsed += slice.length
    this.#parse.call(this.#socket, slice)
    if (!this.#hasBytes) this.#forget()
    this.#goOnUnlessPaused()
    return true
  }

  #mayParse(): boolean {
    const hasTurn = this.#hasTurn
    this.#hasTurn = false
    return hasTurn || this.#costs.mayParse(this.#costs.senderOf(this.#socket), this.#takeTurn)
  }

  readonly #takeTurn = (): void => {
    this.#hasTurn = true
    this.#feedLater()
  }

  /** Who pauses it for a request that waits does so in a microtask. */
  #goOnUnlessPaused(): void {
    queueMicrotask(() => {
      if (!this.#isPaused) this.#socket.resume()
    })
  }
}
