import type { AddressInfo } from 'node:net'
import { BlockList, isIP, isIPv6 } from 'node:net'
import { CellError } from '../../errors.ts'
import type { NodeServer } from '../../http/node-server.ts'

const loopback = new BlockList()
loopback.addSubnet('127.0.0.0', 8, 'ipv4')
loopback.addAddress('::1', 'ipv6')

/**
 * Starts to listen.
 *
 * @returns the address as in a URL, with the port that it got
 * @throws `invalid_setting`, naming the port or the host that can't be had
 */
export async function listen(server: NodeServer, host: string, port: number): Promise<string> {
  // To Node.js that would be every address of the machine.
  if (host === '')
    throw new CellError('invalid_setting', 'The host is an address to listen on, such as 127.0.0.1.')
  try {
    const address = (await server.start({ host, port })) as AddressInfo
    return `http://${isIPv6(host) ? `[${host}]` : host}:${address.port}`
  } catch (error) {
    throw explained(error, host, port)
  }
}

/** Whether only this machine can connect. */
export function isLoopback(host: string): boolean {
  const family = isIP(host)
  if (family === 0) return host === 'localhost'
  return loopback.check(host, family === 6 ? 'ipv6' : 'ipv4')
}

function explained(error: unknown, host: string, port: number): unknown {
  const why = { cause: error }
  switch (error instanceof Error && 'code' in error ? error.code : undefined) {
    case 'EADDRINUSE':
      return new CellError(
        'invalid_setting',
        `Port ${port} on ${host} is in use. Choose another with --port or CELLSTORE_PORT; 0 takes any that is free.`,
        why,
      )
    case 'EACCES':
      return new CellError(
        'invalid_setting',
        `Port ${port} may not be used by this user. Choose one from 1024 up, with --port or CELLSTORE_PORT.`,
        why,
      )
    case 'EADDRNOTAVAIL':
    case 'ENOTFOUND':
    case 'EAI_AGAIN':
      return new CellError(
        'invalid_setting',
        `${host} is no address of this machine. Choose another with --host or CELLSTORE_HOST.`,
        why,
      )
  }
  return error
}
