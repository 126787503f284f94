import type { Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import { AccountQueue } from '../base/account-queue.ts'
import type { Clock } from '../base/clock.ts'
import { senderOf } from './address-counts.ts'

/** New connections that are read at the same time until something of them has come. */
export const FIRST_READS_AT_ONCE = 8
/** How often those that are read and have sent nothing since the last time make room for others. */
export const FIRST_READ_MS = 1

/**
 * Begins to read new connections, a few at a time, and those of each sender in turn. Otherwise one turn of the event loop
 * would read all that have sent something: of hundreds, a first piece of 64 KiB and a request each, while more of them come.
 * A connection that has sent something is read as it comes.
 */
export class FirstReads {
  readonly #clock: Clock
  /** By sender. They were not read yet. */
  readonly #newcomers = new AccountQueue<Socket>()
  /** They had sent nothing when they were read. */
  readonly #silent = new AccountQueue<Socket>()
  /** Those that are read of which nothing has come yet, and whether they have been for long enough. */
  readonly #places = new Map<Socket, { isSilent: boolean }>()
  #prefersSilent = false
  #isRotating = false

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** Call it with every new connection, before anything of it was read. */
  add(socket: Socket): void {
    // A socket forgets its address when it closes.
    const sender = senderOf(socket.remoteAddress)
    socket.once('close', () => {
      this.#newcomers.remove(sender, socket)
      this.#silent.remove(sender, socket)
      this.came(socket)
    })
    if (this.#places.size < FIRST_READS_AT_ONCE) this.#places.set(socket, { isSilent: false })
    // Node.js begins to read it once its listeners have run, also if one of them has paused it.
    else process.nextTick(() => this.#wait(this.#newcomers, socket, sender))
  }

  /** Call it with a connection when a request has come, or what is none. */
  came(socket: Duplex): void {
    if (this.#places.delete(socket as Socket)) this.#fill()
  }

  #wait(queue: AccountQueue<Socket>, socket: Socket, sender: string): void {
    if (socket.destroyed) return
    socket.pause()
    queue.add(sender, socket)
    this.#setRotation()
  }

  #fill(): void {
    while (this.#places.size < FIRST_READS_AT_ONCE) {
      const next = this.#next()
      if (next === undefined) return
      this.#places.set(next, { isSilent: false })
      next.resume()
    }
  }

  /** By turns, so that neither waits for all of the others. */
  #next(): Socket | undefined {
    this.#prefersSilent = !this.#prefersSilent
    const [first, second] = this.#prefersSilent
      ? [this.#silent, this.#newcomers]
      : [this.#newcomers, this.#silent]
    return first.take() ?? second.take()
  }

  #setRotation(): void {
    if (this.#isRotating || this.#newcomers.size + this.#silent.size === 0) return
    this.#isRotating = true
    this.#clock.setTimer(this.#rotate, FIRST_READ_MS)
  }

  readonly #rotate = (): void => {
    this.#isRotating = false
    for (const [socket, place] of [...this.#places]) {
      if (socket.bytesRead > 0) this.#places.delete(socket)
      // It may have been resumed in this very turn of the loop, which has read nothing since.
      else if (!place.isSilent) place.isSilent = true
      else {
        this.#places.delete(socket)
        this.#wait(this.#silent, socket, senderOf(socket.remoteAddress))
      }
    }
    this.#fill()
    this.#setRotation()
  }
}
