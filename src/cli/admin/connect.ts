import type { Clock } from '../../base/clock.ts'
import type { Log } from '../../base/log.ts'
import { StorePaths } from '../../base/store-paths.ts'
import { CellError, isCellError } from '../../errors.ts'
import type { StoreFlags } from '../flags.ts'
import type { AdminService } from './admin-service.ts'
import { SocketAdmin } from './socket-admin.ts'
import { publishedSocket } from './socket-place.ts'

/** A node that is just starting or stopping is one or the other soon. */
const SETTLE_MS = 5_000
const LOOK_EVERY_MS = 100

/**
 * Reaches the store in a directory, for an owner's commands: through the socket of the node that runs on it, or by opening
 * it in this process where none does.
 *
 * @throws `store_not_found`, `store_locked` if its owner takes no commands, and as opening a store does
 */
export async function connectAdmin(flags: StoreFlags, clock: Clock, log: Log): Promise<AdminService> {
  const paths = new StorePaths(flags.dataDir)
  const deadline = clock.monotonic() + SETTLE_MS
  for (;;) {
    const socket = publishedSocket(paths)
    const running = socket === undefined ? undefined : await SocketAdmin.connect(socket)
    if (running !== undefined) return running
    try {
      // The engine and the S3 client take their time to load, and on a running node nobody needs them here.
      const { openStoreAdmin } = await import('./open-store-admin.ts')
      return await openStoreAdmin(flags, clock, log)
    } catch (error) {
      if (!isCellError(error, 'store_locked')) throw error
      if (clock.monotonic() >= deadline) throw takesNoCommands(error)
    }
    await new Promise<void>((resolve) => clock.setTimer(resolve, LOOK_EVERY_MS, { keepsAlive: true }))
  }
}

function takesNoCommands({ message }: CellError): CellError {
  return new CellError(
    'store_locked',
    `${message} It takes no commands: it is a node that is starting or stopping, or a program that embeds cellstore.`,
  )
}
