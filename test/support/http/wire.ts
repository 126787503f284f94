import net from 'node:net'

export interface Exchange {
  socket: net.Socket
  /** All that came, once the connection is closed. */
  ended: Promise<string>
}

/**
 * Sends bytes as they are, and collects what comes until the other side ends the connection.
 *
 * @param localAddress whom the other side takes for the sender
 */
export function exchange(port: number, bytes: string | Uint8Array, localAddress = '127.0.0.1'): Exchange {
  const socket = net.connect({ port, host: '127.0.0.1', localAddress })
  socket.setEncoding('latin1')
  let received = ''
  socket.on('data', (data: string) => {
    received += data
  })
  socket.on('error', () => {})
  const ended = new Promise<string>((resolve) => socket.on('close', () => resolve(received)))
  socket.write(bytes)
  return { socket, ended }
}

export interface WireAnswer {
  status: number
  headers: Headers
  body: string
}

/**
 * The answers in what a connection has received, one after the other.
 *
 * @throws if that is anything else than whole answers, each as long as it says
 */
export function answersIn(received: string): WireAnswer[] {
  const answers: WireAnswer[] = []
  for (let rest = received; rest !== ''; ) {
    const [, head = '', after = ''] = /^(.*?)\r\n\r\n(.*)$/s.exec(rest) ?? []
    const [statusLine = '', ...lines] = head.split('\r\n')
    const status = Number(/^HTTP\/1\.1 (\d{3}) /.exec(statusLine)?.[1])
    if (!status) throw new Error(`No answer: ${JSON.stringify(rest.slice(0, 200))}`)
    const headers = new Headers(lines.map((line) => line.split(/: (.*)/s).slice(0, 2) as [string, string]))
    const length = status === 100 ? 0 : Number(headers.get('content-length') ?? Number.NaN)
    if (!(length <= after.length))
      throw new Error(`An answer cut short: ${JSON.stringify(rest.slice(0, 200))}`)
    if (status !== 100) answers.push({ status, headers, body: after.slice(0, length) })
    rest = after.slice(length)
  }
  return answers
}
