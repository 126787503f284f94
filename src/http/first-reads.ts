import type { Socket } from 'node:net'
import { AccountQueue } from '../base/account-queue.ts'
import type { Clock } from '../base/clock.ts'

/** New connections that are read at the same time until something of them has come. */
export const FIRST_READS_AT_ONCE = 8
/** How often those that are read and have sent nothing since the last time make room for others. */
export const FIRST_READ_MS = 5

/**
 * Begins to read new connections, a few at a time, and those of each address in turn. Otherwise one turn of the event loop
 * would read all that have sent something: of hundreds, a first piece of 64 KiB and a request each, while more of them come.
 * A connection that has sent something is read as it comes.
 */
export class FirstReads {
  readonly #clock: Clock
  /** By the address that they come from. They were not read yet. */
  readonly #newcomers = new AccountQueue<Socket>()
  /** They had sent nothing when they were read. */
  readonly #silent = new AccountQueue<Socket>()
  /** Those that are read, and whether they have been for long enough. */
  readonly #reading = new Map<Socket, { isSilent: boolean }>()
  #prefersSilent = false
  #isRotating = false

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** Call it with every new connection, before anything of it was read. */
  add(socket: Socket): void {
    const address = addressOf(socket)
    socket.once('close', () => {
      this.#newcomers.remove(address, socket)
      this.#silent.remove(address, socket)
      this.came(socket)
    })
    if (this.#reading.size < FIRST_READS_AT_ONCE) this.#reading.set(socket, { isSilent: false })
    // Node.js begins to read it once its listeners have run, also if one of them has paused it.
    else process.nextTick(() => this.#wait(this.#newcomers, socket))
  }

  /** Call it with the connection of every request. */
  came(socket: Socket): void {
    if (this.#reading.delete(socket)) this.#fill()
  }

  #wait(queue: AccountQueue<Socket>, socket: Socket): void {
    if (socket.destroyed) return
    socket.pause()
    queue.add(addressOf(socket), socket)
    this.#setRotation()
  }

  #fill(): void {
    while (this.#reading.size < FIRST_READS_AT_ONCE) {
      const next = this.#next()
      if (next === undefined) return
      this.#reading.set(next, { isSilent: false })
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
    for (const [socket, place] of [...this.#reading]) {
      if (socket.bytesRead > 0) this.#reading.delete(socket)
      // It may have been resumed in this very turn of the loop, which has read nothing since.
      else if (!place.isSilent) place.isSilent = true
      else {
        this.#reading.delete(socket)
        this.#wait(this.#silent, socket)
      }
    }
    this.#fill()
    this.#setRotation()
  }
}

/** Empty for a Unix socket. A socket forgets it when it closes. */
function addressOf({ remoteAddress = '' }: Socket): string {
  return remoteAddress
}
