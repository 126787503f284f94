import type { Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import { setImmediate, systemClock } from '../base/clock.ts'
import { LoopTurns } from '../base/loop-turns.ts'
import { releaseBytes } from '../base/release-bytes.ts'
import type { ReadCosts } from './read-costs.ts'

/** It may hold 20 tiny requests. If its client goes away meanwhile, Node.js makes an error of each. */
export const SLICE_BYTES = 512
/** As long as nothing of a connection was charged, each slice is twice as long as the one before: a plain body costs little. */
const UNCHARGED_BYTES = { first: 128, max: 8_192 }
/** Slices that are parsed in one turn of the event loop: about a millisecond of work, … */
export const SLICES_PER_TURN = 8
/** … and connections that are read again after they were paused. */
const RESUMED_PER_TURN = 16

/** What is parsed of the costly senders of this process, which has one event loop. */
const slices = new LoopTurns(SLICES_PER_TURN, systemClock)
const resumptions = new LoopTurns(RESUMED_PER_TURN, systemClock)

/**
 * Has the connections of costly senders parsed in slices, a few in each turn of the event loop. Node.js reads 64 KiB of a connection
 * at a time and parses them in one go. These may hold 2,500 requests or 10,000 chunks of a body, which take 10 to 30 ms; and of
 * hundreds of connections that are ready together, it would parse one after the other in a single turn.
 */
export class SlicedReads {
  readonly #costs: ReadCosts
  readonly #sliced = new WeakMap<Duplex, SlicedRead>()
  /** They will be sliced. */
  readonly #pending = new WeakSet<Duplex>()

  constructor(costs: ReadCosts) {
    this.#costs = costs
    costs.onCostly((connections, current) => {
      for (const socket of connections) if (socket !== current) this.#sliceLater(socket)
      this.#sliceAfterThis(current as Socket)
    })
  }

  /** Call it with every new connection. */
  add(socket: Socket): void {
    // If it has to wait for its first read, it is paused in this tick.
    if (this.#costs.isCostly(this.#costs.senderOf(socket))) process.nextTick(() => this.#slice(socket))
  }

  /** Whether something of a connection has come that Node.js does not know of yet. */
  hasUnparsed(socket: Duplex): boolean {
    return this.#sliced.get(socket)?.hasBytes === true
  }

  /** Node.js has given its parser back. */
  release(socket: Duplex): void {
    this.#sliced.get(socket)?.release()
  }

  /** What is already there of it is not read in this turn: of what is ready, Node.js reads what it still may when it comes to it. */
  #sliceLater(socket: Socket): void {
    if (this.#sliced.has(socket) || socket.destroyed) return
    const isRead = !socket.isPaused()
    if (isRead) socket.pause()
    this.#slice(socket)
    if (!isRead) return
    resumptions.add(this.#costs.senderOf(socket), () => {
      // Somebody else may have resumed it, and may have paused it again.
      if (this.#sliced.has(socket) || socket.destroyed) return false
      socket.resume()
      return true
    })
  }

  /** Its parser may be at work. */
  #sliceAfterThis(socket: Socket): void {
    if (this.#sliced.has(socket) || this.#pending.has(socket)) return
    this.#pending.add(socket)
    setImmediate(() => {
      this.#pending.delete(socket)
      this.#slice(socket)
    })
  }

  #slice(socket: Socket): void {
    if (this.#sliced.has(socket) || this.#pending.has(socket) || socket.destroyed) return
    if (!socket.isPaused()) this.#sliceNow(socket)
    else {
      // What Node.js has stopped to read by itself, it alone begins to read again.
      this.#pending.add(socket)
      socket.once('resume', () => {
        this.#pending.delete(socket)
        this.#slice(socket)
      })
    }
  }

  #sliceNow(socket: Socket): void {
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
  /** The socket's own. */
  readonly #methods: Pick<Socket, '_read' | 'pause' | 'push' | 'resume'>
  /** What came, and how much of it is parsed. While there is more, the connection is not read. */
  #bytes: Buffer = NOTHING
  #parsed = 0
  /** As its users see it. It is taken over while it is read. */
  #isPaused = false
  /** The client has sent its last, and Node.js does not know it yet. */
  #isOver = false
  #isScheduled = false
  /** Of the next slice, if nothing of it is charged until then. */
  #sliceBytes = UNCHARGED_BYTES.first
  /** It waits until its sender has fewer requests that wait, … */
  #isWaiting = false
  /** … and has done so. */
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
    const { _read, pause, push, resume } = socket
    this.#methods = { _read, pause, push, resume }
    // With another listener, Node.js hands over what comes; otherwise its parser reads the connection by itself.
    socket.on('data', this.#take)
    socket.off('data', parse)
    socket.once('close', () => this.#forget())
    socket.pause = () => {
      this.#isPaused = true
      return pause.call(socket)
    }
    socket.resume = () => this.#resume()
    // Node.js has a stream that has room read on, also if it is paused. Of hundreds, one more piece each would be tens of megabytes.
    socket._read = (size) => {
      if (!this.#isPaused && !this.hasBytes) _read.call(socket, size)
    }
    socket.push = (bytes, encoding) => {
      if (bytes !== null) return push.call(socket, bytes, encoding) && !this.hasBytes
      this.#isOver = true
      this.#endIfOver()
      return false
    }
  }

  release(): void {
    const socket = this.#socket
    socket.off('data', this.#take)
    Object.assign(socket, this.#methods)
    this.#forget()
    this.#readOn()
  }

  /** Node.js was told to read no more. */
  #readOn(): void {
    if (!this.#socket.destroyed) this.#methods._read.call(this.#socket, 0)
  }

  #resume(): Socket {
    const socket = this.#socket
    // As Node.js does with its own parser: who resumes may not know of it.
    if (isPausedByNode(socket)) return socket
    this.#isPaused = false
    if (this.hasBytes) this.#feedLater()
    else {
      this.#methods.resume.call(socket)
      this.#readOn()
      queueMicrotask(() => this.#endIfOver())
    }
    return socket
  }

  get hasBytes(): boolean {
    return this.#parsed < this.#bytes.length
  }

  #forget(): void {
    releaseBytes(this.#bytes)
    this.#bytes = NOTHING
    this.#parsed = 0
  }

  readonly #take = (bytes: Buffer): void => {
    if (!this.hasBytes && !isPausedByNode(this.#socket) && this.#isCheap(bytes)) {
      this.#parse.call(this.#socket, bytes)
      this.#goOnUnlessPaused()
      return
    }
    this.#bytes = this.hasBytes ? Buffer.concat([this.#bytes.subarray(this.#parsed), bytes]) : bytes
    this.#parsed = 0
    this.#socket.pause()
    this.#resume()
  }

  #isCheap(bytes: Buffer): boolean {
    if (!this.#costs.isCostly(this.#costs.senderOf(this.#socket))) return true
    return bytes.length <= SLICE_BYTES && !this.#costs.isCharged(this.#socket)
  }

  /** Node.js would take the connection for ended while something of it waits, also if it is paused. */
  #endIfOver(): void {
    const waits = this.#isPaused || this.hasBytes || this.#socket.readableLength > 0
    if (!this.#isOver || waits) return
    this.#isOver = false
    this.#methods.push.call(this.#socket, null)
  }

  #feedLater(): void {
    if (this.#isScheduled) return
    this.#isScheduled = true
    slices.add(this.#costs.senderOf(this.#socket), this.#feed)
  }

  readonly #feed = (): boolean => {
    this.#isScheduled = false
    if (this.#isPaused || !this.hasBytes || this.#isWaiting || this.#socket.destroyed) return false
    if (!this.#mayParse()) return false
    const slice = this.#bytes.subarray(this.#parsed, this.#parsed + this.#nextLength())
    this.#parsed += slice.length
    this.#parse.call(this.#socket, slice)
    if (!this.hasBytes) this.#forget()
    this.#goOnUnlessPaused()
    return true
  }

  #mayParse(): boolean {
    const hasTurn = this.#hasTurn
    this.#hasTurn = false
    this.#isWaiting = !hasTurn && !this.#costs.mayParse(this.#socket, this.#takeTurn)
    return !this.#isWaiting
  }

  readonly #takeTurn = (): boolean => {
    this.#isWaiting = false
    if (!this.hasBytes || this.#socket.destroyed) return false
    this.#hasTurn = true
    this.#feedLater()
    return true
  }

  #nextLength(): number {
    if (this.#costs.isCharged(this.#socket)) return SLICE_BYTES
    const bytes = this.#sliceBytes
    this.#sliceBytes = Math.min(2 * bytes, UNCHARGED_BYTES.max)
    return bytes
  }

  /** Who pauses it for a request that waits does so in a microtask. */
  #goOnUnlessPaused(): void {
    queueMicrotask(() => {
      if (!this.#isPaused) this.#socket.resume()
    })
  }
}

/** While a client takes no answers, Node.js stops its parser, and takes it for a bug if that gets anything meanwhile. */
function isPausedByNode(socket: Socket & { _paused?: boolean }): boolean {
  return socket._paused === true
}
