import type { Log } from '../../base/log.ts'
import { NodeServer } from '../../http/node-server.ts'
import { OWNER } from '../../http/owner-routes.ts'
import type { CellService } from '../../service/cell-service.ts'
import type { CellDirectory } from '../../store/cell-directory.ts'
import type { SocketPlace } from './socket-place.ts'

export interface OwnerServerOptions {
  /** Runs the cells: the one that runs them for accounts too. */
  service: CellService
  logger: Log
}

/** Nobody but the owner may connect: read and write for one user. */
const OWNER_ONLY_MASK = 0o177

/**
 * Takes the owner's commands on a Unix socket: the same HTTP as for accounts, with the owner's routes. The file system
 * says who may connect: the socket has mode 0600, in a folder of mode 0700.
 */
export class OwnerServer {
  readonly #server: NodeServer
  readonly #place: SocketPlace

  private constructor(server: NodeServer, place: SocketPlace) {
    this.#server = server
    this.#place = place
  }

  /** @throws the errors of node:net */
  static async start(
    store: CellDirectory,
    place: SocketPlace,
    options: OwnerServerOptions,
  ): Promise<OwnerServer> {
    const server = new NodeServer(store, { ...options, audience: OWNER })
    // The socket is bound within the call: at no instant does it have another mode.
    const mask = process.umask(OWNER_ONLY_MASK)
    let listening: Promise<unknown>
    try {
      listening = server.start({ path: place.path })
    } finally {
      process.umask(mask)
    }
    await listening
    return new OwnerServer(server, place)
  }

  /** Where commands find it. */
  get path(): string {
    return this.#place.path
  }

  /** Takes no new command, lets those under way finish, and ends the rest at the deadline. */
  async stop({ drainMs }: { drainMs: number }): Promise<void> {
    await this.#server.stop({ drainMs })
    this.#place.dispose()
  }
}
