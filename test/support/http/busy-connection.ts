import net from 'node:net'
import { answersIn, type WireAnswer } from './wire.ts'

/** A connection that sends one request after the other, and can pause within one. */
export class BusyConnection {
  readonly #socket: net.Socket
  #received = ''
  #wake = () => {}
  #closed = false

  constructor(port: number) {
    this.#socket = net.connect(port, '127.0.0.1')
    this.#socket.setEncoding('latin1')
    this.#socket.on('data', (data: string) => {
      this.#received += data
      this.#wake()
    })
    this.#socket.on('error', () => {})
    this.#socket.on('close', () => {
      this.#closed = true
      this.#wake()
    })
  }

  /**
   * Sends a request and waits for its answer.
   *
   * @param pauseAt how many of its bytes are sent before `pause` is awaited
   */
  async ask(request: string, pauseAt = 0, pause: () => Promise<void> = async () => {}): Promise<WireAnswer> {
    if (pauseAt > 0) this.#socket.write(request.slice(0, pauseAt))
    await pause()
    this.#socket.write(request.slice(pauseAt))
    return await this.#answer()
  }

  close(): void {
    this.#socket.destroy()
  }

  async #answer(): Promise<WireAnswer> {
    while (!this.#isWhole()) {
      if (this.#closed) throw new Error(`The connection ended after ${JSON.stringify(this.#received)}`)
      await new Promise<void>((resolve) => {
        this.#wake = resolve
      })
    }
    const [answer] = answersIn(this.#received)
    this.#received = ''
    return answer as WireAnswer
  }

  #isWhole(): boolean {
    const head = this.#received.indexOf('\r\n\r\n')
    const length = /content-length: (\d+)/i.exec(this.#received.slice(0, Math.max(head, 0)))?.[1]
    return head >= 0 && this.#received.length >= head + 4 + Number(length ?? 0)
  }
}
