import { once } from 'node:events'
import net from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'

/**
 * - `up`: bytes pass.
 * - `cut`: connections end, and new ones are refused.
 * - `stalled`: connections stay, new ones are taken, and no byte passes either way.
 */
export type LinkState = 'up' | 'cut' | 'stalled'

/** A TCP connection's way from one part of a cluster to another one: a small proxy that a test can cut, stall and slow down. */
export class Link {
  readonly #server: net.Server
  readonly #target: number
  readonly #open = new Set<net.Socket>()
  #state: LinkState = 'up'
  #delayMs = 0
  #messages = 0
  #cutAt = Number.POSITIVE_INFINITY
  #reached = () => {}

  private constructor(server: net.Server, target: number) {
    this.#server = server
    this.#target = target
    server.on('connection', (near) => this.#connect(near))
  }

  /** @param target a port of 127.0.0.1, where nobody needs to listen yet */
  static async to(target: number): Promise<Link> {
    const server = net.createServer({ allowHalfOpen: true }).listen(0, '127.0.0.1')
    await once(server, 'listening')
    return new Link(server, target)
  }

  get port(): number {
    return (this.#server.address() as net.AddressInfo).port
  }

  get state(): LinkState {
    return this.#state
  }

  /** @param delayMs how long each chunk of bytes is on its way */
  set(state: LinkState, delayMs = 0): void {
    this.#state = state
    this.#delayMs = delayMs
    for (const socket of this.#open)
      if (state === 'cut') socket.destroy()
      else if (state === 'stalled') socket.pause()
      else socket.resume()
  }

  /**
   * At the message of this number, counted from 1 and from now on in both directions, calls `reached` in place of passing it on, and
   * cuts the connection: a request is lost before it is carried out, an answer afterwards.
   */
  atMessage(number: number, reached: () => void): void {
    this.#cutAt = this.#messages + number
    this.#reached = reached
  }

  /** How many have come so far, in both directions. */
  get messages(): number {
    return this.#messages
  }

  async close(): Promise<void> {
    this.set('cut')
    await new Promise((resolve) => this.#server.close(resolve))
  }

  #connect(near: net.Socket): void {
    if (this.#state === 'cut') {
      near.destroy()
      return
    }
    const far = net.connect({ port: this.#target, host: '127.0.0.1', allowHalfOpen: true })
    for (const [from, to] of [
      [near, far],
      [far, near],
    ] as const) {
      this.#open.add(from)
      from.setNoDelay()
      let order = Promise.resolve()
      const later = (run: () => void) => {
        const delayMs = this.#delayMs
        order = order.then(async () => {
          if (delayMs > 0) await sleep(delayMs)
          run()
        })
      }
      from.on('data', (bytes) => {
        if (++this.#messages === this.#cutAt) {
          this.#reached()
          near.destroy()
        } else later(() => to.write(bytes))
      })
      from.on('end', () => later(() => to.end()))
      from.on('error', () => to.destroy())
      from.on('close', () => {
        this.#open.delete(from)
        to.destroy()
      })
      if (this.#state === 'stalled') from.pause()
    }
  }
}
