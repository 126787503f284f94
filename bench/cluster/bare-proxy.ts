import http from 'node:http'
import type { AddressInfo } from 'node:net'

/**
 * The least that sends requests on to another server: node:http, connections that are kept open, and bodies that pass as they come.
 * Its second argument is the port of the other server; it prints its address when it serves.
 */
const port = Number(process.argv[3])
const agent = new http.Agent({ keepAlive: true, maxFreeSockets: 256 })

const server = http.createServer(({ method, url: path, headers }, response) => {
  const outgoing = http.request({ agent, host: '127.0.0.1', port, method, path, headers }, (answer) => {
    response.writeHead(answer.statusCode ?? 502, answer.headers)
    answer.pipe(response)
  })
  outgoing.on('error', () => response.destroy())
  outgoing.end()
})
server.listen(0, '127.0.0.1', () => {
  const { port } = server.address() as AddressInfo
  console.log(JSON.stringify({ address: `http://127.0.0.1:${port}` }))
})
process.on('SIGTERM', () => process.exit(0))
