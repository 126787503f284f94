import { once } from 'node:events'
import net from 'node:net'

const BODY = JSON.stringify({ name: 'made while the node stops' })

/** A request to make a cell, of which the node has the headers and half of the body: it is under way. */
export class SlowRequest {
  readonly #socket: net.Socket
  #received = ''

  private constructor(socket: net.Socket) {
    this.#socket = socket
    socket.setEncoding('utf8')
    socket.on('data', (chunk: string) => {
      this.#received += chunk
    })
    // The node may cut it off; whoever finishes it will see.
    socket.on('error', () => {})
  }

  static async begin(address: string, key: string): Promise<SlowRequest> {
    const { hostname, port } = new URL(address)
    const socket = net.connect(Number(port), hostname)
    const request = new SlowRequest(socket)
    const headers = [
      'POST /v1/databases HTTP/1.1',
      `Host: ${hostname}`,
      `x-api-key: ${key}`,
      'Content-Type: application/json',
      `Content-Length: ${BODY.length}`,
      // What answers this is the node, once it has the headers.
      'Expect: 100-continue',
    ]
    socket.write(`${headers.join('\r\n')}\r\n\r\n`)
    await once(socket, 'data')
    if (!request.#received.startsWith('HTTP/1.1 100 ')) throw new Error(request.#received)
    request.#received = ''
    socket.write(BODY.slice(0, 10))
    return request
  }

  /** Sends the rest. */
  async finish(): Promise<{ status: number; body: unknown }> {
    const closed = once(this.#socket, 'close')
    this.#socket.write(BODY.slice(10))
    await closed
    const [head = '', body = ''] = this.#received.split('\r\n\r\n')
    return { status: Number(head.split(' ')[1]), body: JSON.parse(body) }
  }
}
