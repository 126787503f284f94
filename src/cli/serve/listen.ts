import { type AddressInfo, isIP, isIPv6 } from 'node:net'
import { isLoopback } from '../../base/loopback.ts'
import { CellError } from '../../errors.ts'
import type { NodeServer } from '../../http/node-server.ts'

/**
 * Starts to listen.
 *
 * @returns the URL, with the port that the system chose if that was 0
 * @throws `invalid_setting`, which names the port or the host
 */
export async function listen(server: NodeServer, host: string, port: number): Promise<string> {
  // Node.js would take it as every address of the machine.
  if (host === '')
    throw new CellError(
      'invalid_setting',
      'The host is empty. It must be an address to listen on, such as 127.0.0.1.',
    )
  try {
    const address = (await server.start({ host, port })) as AddressInfo
    return `http://${isIPv6(host) ? `[${host}]` : host}:${address.port}`
  } catch (error) {
    throw explained(error, host, port)
  }
}

/** Whether only this machine can connect. */
export function isLocal(host: string): boolean {
  return isIP(host) === 0 ? host === 'localhost' : isLoopback(host)
}

function explained(error: unknown, host: string, port: number): unknown {
  const why = whyNot(error instanceof Error && 'code' in error ? error.code : undefined, host, port)
  return why === undefined ? error : new CellError('invalid_setting', why, { cause: error })
}

function whyNot(errno: unknown, host: string, port: number): string | undefined {
  switch (errno) {
    case 'EADDRINUSE':
      return `Port ${port} on ${host} is in use. Choose another one with --port or CELLSTORE_PORT; 0 takes any free port.`
    case 'EACCES':
      return `This user may not use port ${port}. Choose one from 1024 up with --port or CELLSTORE_PORT.`
    case 'EADDRNOTAVAIL':
    case 'ENOTFOUND':
    case 'EAI_AGAIN':
      return `${host} is not an address of this machine. Choose another one with --host or CELLSTORE_HOST.`
    default:
      return undefined
  }
}
