import { once } from 'node:events'
import net from 'node:net'

/** Where a connection is cut: before the message is passed on, or once it was. */
export type Cut = 'before' | 'after'

/** A TCP proxy that cuts a connection at one of the messages that pass, in either direction. */
export class CuttingProxy {
  readonly #to: number
  readonly #server = net.createServer((client) => this.#connect(client))
  readonly #sockets = new Set<net.Socket>()
  #left = Number.POSITIVE_INFINITY
  #cut: Cut = 'before'

  private constructor(to: number) {
    this.#to = to
  }

  /** @param to a port of this machine */
  static async start(to: number): Promise<CuttingProxy> {
    const proxy = new CuttingProxy(to)
    proxy.#server.listen(0, '127.0.0.1')
    await once(proxy.#server, 'listening')
    return proxy
  }

  get port(): number {
    return (this.#server.address() as net.AddressInfo).port
  }

  /** Cuts the connection of the message, counted from 1. */
  cutAt(message: number, cut: Cut): void {
    this.#left = message
    this.#cut = cut
  }

  get hasCut(): boolean {
    return this.#left <= 0
  }

  /** Whether the cut has happened; there is none from here on. */
  wasCut(): boolean {
    const was = this.hasCut
    this.#left = Number.POSITIVE_INFINITY
    return was
  }

  async stop(): Promise<void> {
    for (const socket of this.#sockets) socket.destroy()
    this.#server.close()
    await once(this.#server, 'close')
  }

  #connect(client: net.Socket): void {
    const server = net.connect(this.#to, '127.0.0.1')
    const end = () => {
      client.destroy()
      server.destroy()
    }
    for (const [from, to] of [
      [client, server],
      [server, client],
    ] as const) {
      this.#sockets.add(from)
      from.setNoDelay()
      from.on('data', (bytes) => {
        const isCut = --this.#left === 0
        if (isCut && this.#cut === 'before') return end()
        to.write(bytes, () => isCut && end())
      })
      from.on('error', end)
      from.on('close', () => {
        this.#sockets.delete(from)
        end()
      })
    }
  }
}
