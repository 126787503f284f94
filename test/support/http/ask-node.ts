import http from 'node:http'

const agent = new http.Agent({ keepAlive: true })

/** An answer, with its bytes. */
export interface Got {
  status: number
  headers: http.IncomingHttpHeaders
  text: string
  bytes: Buffer
  json: Record<string, unknown>
}

/** What is sent beside the path. */
export interface Sent {
  method?: string
  headers?: Record<string, string>
  body?: string | Buffer
}

/** Asks a node of 127.0.0.1. */
export function askNode(
  port: number,
  path: string,
  { method = 'GET', headers = {}, body }: Sent,
): Promise<Got> {
  return new Promise((resolve, reject) => {
    const type = body === undefined ? {} : { 'content-type': 'application/json' }
    const request = http.request({
      host: '127.0.0.1',
      port,
      agent,
      method,
      path,
      headers: { ...type, ...headers },
    })
    request.on('error', reject)
    request.on('response', (response) => {
      const pieces: Buffer[] = []
      response.on('data', (piece: Buffer) => pieces.push(piece))
      response.on('error', reject)
      response.on('end', () => {
        const bytes = Buffer.concat(pieces)
        const text = bytes.toString()
        const { statusCode: status = 0, headers } = response
        const json = /json/.test(headers['content-type'] ?? '') ? JSON.parse(text) : {}
        resolve({ status, headers, text, bytes, json })
      })
    })
    request.end(body)
  })
}
