import net, { type AddressInfo } from 'node:net'
import { expect, onTestFinished, test } from 'vitest'
import { systemClock } from '../../../src/base/clock.ts'
import { PeerConnections } from '../../../src/http/forwarding/peer-connections.ts'
import { until } from '../../support/until.ts'

/** More than one account may hold open: it sends their bodies slowly, and reads streams of changes. */
const SLOW = 1_100

test('a request waits for none of those that take long: their number is bounded where clients connect', async () => {
  const sockets = new Set<net.Socket>()
  const server = net.createServer((socket) => {
    sockets.add(socket)
    socket.on('error', () => {})
    socket.on('data', (data) => {
      if (data.toString().startsWith('GET /quick')) socket.end('HTTP/1.1 204 No Content\r\n\r\n')
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', 2_048, resolve))
  const connections = new PeerConnections(systemClock)
  onTestFinished(() => {
    connections.close()
    for (const socket of sockets) socket.destroy()
    server.close()
  })
  const { port } = server.address() as AddressInfo
  const begin = (path: string) => {
    const { request, answer } = connections.begin(`http://127.0.0.1:${port}`, { method: 'GET', path })
    request.end()
    return answer
  }
  for (let i = 0; i < SLOW; i++) {
    begin('/slow').catch(() => {})
    // Those that are not accepted at once count as unreachable.
    if (i % 100 === 99) await until(() => sockets.size === i + 1, 'the other node has accepted them')
  }
  expect((await begin('/quick')).statusCode).toBe(204)
})
