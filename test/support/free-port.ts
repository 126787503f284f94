import { once } from 'node:events'
import net from 'node:net'

/** Above the ports that fetch refuses, and below what Linux gives to outgoing connections: one of those would take the port of a server that is down for a moment. */
const [LOWEST, HIGHEST] = [10_100, 32_000]
let next = LOWEST + ((process.pid * 61) % (HIGHEST - LOWEST))

/** A port of this machine where nobody listens. */
export async function freePort(): Promise<number> {
  for (;;) {
    const port = next
    next = port + 1 < HIGHEST ? port + 1 : LOWEST
    const server = net.createServer()
    const isFree = once(server.listen(port, '127.0.0.1'), 'listening').then(
      () => true,
      () => false,
    )
    if (!(await isFree)) continue
    await new Promise((resolve) => server.close(resolve))
    return port
  }
}
