import { createServer, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'

/** Serves with node:http on a port of its own, and prints the address. `take` answers with {@link answer}. */
export function serveBare(
  take: (method: string, url: string, body: string, response: ServerResponse) => void,
): void {
  const server = createServer((request, response) => {
    const { method = 'GET', url = '/' } = request
    if (method === 'GET') {
      take(method, url, '', response)
      return
    }
    const chunks: Buffer[] = []
    request.on('data', (chunk: Buffer) => chunks.push(chunk))
    request.on('end', () => take(method, url, Buffer.concat(chunks).toString(), response))
  })
  server.listen(0, '127.0.0.1', () => {
    console.log(JSON.stringify({ address: `http://127.0.0.1:${(server.address() as AddressInfo).port}` }))
  })
}

export function answer(response: ServerResponse, json: string): void {
  response.writeHead(200, { 'Content-Type': 'application/json', 'Content-Length': Buffer.byteLength(json) })
  response.end(json)
}
