import type { Log } from '../../base/log.ts'
import { OWNER } from '../../http/routes/owner/owner-routes.ts'
import { NodeServer, type NodeServerOptions } from '../../http/server/node-server.ts'
import type { CellService } from '../../service/cell-service.ts'
import type { CellDirectory } from '../../store/cells/cell-directory.ts'
import type { SocketPlace } from './socket-place.ts'

export interface OwnerServerOptions extends Pick<NodeServerOptions, 'accessLogger' | 'counts' | 'node'> {
  /** Runs the cells: the one that runs them for accounts too. */
  service: CellService
  logger: Log
}

/** For a whole request to arrive: the owner imports databases, from pipes too. */
const REQUEST_MS = 24 * 3_600_000
/** Nobody but the owner may connect: read and write for one user. */
const OWNER_ONLY_MASK = 0o177

export interface OwnerServer {
  /** Where commands find it. */
  readonly path: string
  /** Takes no new command, lets those under way finish, and ends the rest at the deadline. */
  stop(options: { drainMs: number }): Promise<void>
}

/**
 * Takes the owner's commands on a Unix socket: the same HTTP as for accounts, with the owner's routes. The file system
 * says who may connect: the socket has mode 0600, in a folder of mode 0700.
 *
 * @throws the errors of node:net
 */
export async function serveOwner(
  store: CellDirectory,
  place: SocketPlace,
  options: OwnerServerOptions,
): Promise<OwnerServer> {
  const connections = { requestMs: REQUEST_MS }
  const server = new NodeServer(store, { ...options, connections, audience: OWNER })
  // The socket is bound within the call: at no instant does it have another mode.
  const mask = process.umask(OWNER_ONLY_MASK)
  let listening: Promise<unknown>
  try {
    listening = server.start({ path: place.path })
  } finally {
    process.umask(mask)
  }
  await listening
  return {
    path: place.path,
    async stop({ drainMs }) {
      await server.stop({ drainMs })
      place.dispose()
    },
  }
}
