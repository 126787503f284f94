import { type Clock, delay } from '../../base/clock.ts'
import { StorePaths } from '../../base/files/store-paths.ts'
import type { Log } from '../../base/log.ts'
import { CellError, isCellError } from '../../errors.ts'
import type { StoreFlags } from '../flags.ts'
import { type OwnerClient, ownerClient, type Transport } from './owner-client.ts'
import { publishedSocket } from './socket-place.ts'
import { connectSocket } from './socket-transport.ts'

/** A node that is starting or stopping has finished by then. */
const SETTLE_MS = 5_000
const LOOK_EVERY_MS = 100

/**
 * Reaches the store in a directory: through the socket of the node that runs on it, or by opening it in this process where
 * no node runs.
 *
 * @param bringsBack as `openStore`
 * @throws `store_not_found`, `store_locked` if its owner takes no commands, and as opening a store does
 */
export async function connectOwner(
  flags: StoreFlags,
  clock: Clock,
  log: Log,
  bringsBack = false,
): Promise<OwnerClient> {
  return ownerClient(await findTransport(flags, clock, log, bringsBack), clock)
}

/** As {@link connectOwner}, and only to a node. @throws `store_closed` if none runs on the store */
export async function connectNode({ dataDir }: StoreFlags, clock: Clock): Promise<OwnerClient> {
  const socket = publishedSocket(new StorePaths(dataDir))
  const running = socket === undefined ? undefined : await connectSocket(socket)
  if (running !== undefined) return ownerClient(running, clock)
  throw new CellError(
    'store_closed',
    `No node runs on the store in ${dataDir}. \`cellstore serve\` starts one; --data-dir names another directory.`,
  )
}

async function findTransport(
  flags: StoreFlags,
  clock: Clock,
  log: Log,
  bringsBack: boolean,
): Promise<Transport> {
  const paths = new StorePaths(flags.dataDir)
  const deadline = clock.monotonic() + SETTLE_MS
  for (;;) {
    const socket = publishedSocket(paths)
    const running = socket === undefined ? undefined : await connectSocket(socket)
    if (running !== undefined) return running
    try {
      // The engine and the S3 client take time to load, and a command to a running node does not need them.
      const { openStore } = await import('./store-transport.ts')
      return await openStore(flags, clock, log, bringsBack)
    } catch (error) {
      if (!isCellError(error, 'store_locked')) throw error
      if (clock.monotonic() >= deadline) throw takesNoCommands(error)
    }
    await delay(clock, LOOK_EVERY_MS)
  }
}

function takesNoCommands({ message }: CellError): CellError {
  return new CellError(
    'store_locked',
    `${message} It takes no commands: it is a node that is starting or stopping, or a program that embeds cellstore.`,
  )
}
