import path from 'node:path'
import { StorePaths } from '../../engine/cell-path.ts'
import type { Clock } from '../../engine/clock.ts'
import type { Log } from '../../engine/log.ts'
import { InProcessService } from '../../host/in-process-service.ts'
import { DEFAULT_HTTP_LIMITS, REQUEST_DEADLINE_MS_DEFAULT } from '../../http/handler-options.ts'
import { NodeServer } from '../../http/node-server.ts'
import type { StoreOptions } from '../../settings.ts'
import { CellStore } from '../../store.ts'
import { AdminServer } from '../admin/admin-server.ts'
import { SocketPlace } from '../admin/socket-place.ts'
import { StoreAdmin } from '../admin/store-admin.ts'
import { objectStoreOf } from '../flags.ts'
import { announce } from './announcement.ts'
import { issueFirstKey } from './first-start.ts'
import { isLoopback, listen } from './listen.ts'
import type { ServeFlags } from './serve-flags.ts'

export interface NodeComponents {
  clock: Clock
  log: Log
  rootKey: string | undefined
  /** Standard output: called once, before anything is answered. */
  print(text: string): void
}

/** A store that is served: over HTTP to the holders of keys, and over its socket to its owner. */
export class RunningNode {
  readonly #store: CellStore
  readonly #server: NodeServer
  readonly #admin: AdminServer | undefined

  private constructor(store: CellStore, server: NodeServer, admin: AdminServer | undefined) {
    this.#store = store
    this.#server = server
    this.#admin = admin
  }

  /** @throws what opening the store throws, and `invalid_setting` for a port or a host that can't be had */
  static async start(flags: ServeFlags, components: NodeComponents): Promise<RunningNode> {
    const { clock, log, rootKey, print } = components
    const objectStore = objectStoreOf(flags)
    const store = await CellStore.openOrCreate(flags.dataDir, {
      ...storeOptions(flags),
      objectStore,
      clock,
      log,
    })
    const service = new InProcessService(store, {
      restoreWaitMs: REQUEST_DEADLINE_MS_DEFAULT,
      answerBytesMax: DEFAULT_HTTP_LIMITS.result.bytesMax,
    })
    const server = new NodeServer(store, { logger: log, service })
    let admin: AdminServer | undefined
    try {
      const firstKey = await issueFirstKey(store, rootKey, flags.objectStoreWait, log)
      admin = await startAdmin(new StoreAdmin(store, service), new StorePaths(flags.dataDir), clock, log)
      const address = await listen(server, flags.host, flags.port)
      // From here on nothing waits: connections may come in, and none is read before this turn of the event loop is over.
      print(
        announce(
          { address, store, dataDir: path.resolve(flags.dataDir), objectStore, firstKey },
          flags.json === true,
        ),
      )
      if (firstKey !== undefined) store.firstKey.shown()
      if (admin !== undefined) store.publishSocket(admin.path)
      log.info({ address, store_id: store.id }, 'serving')
      if (!isLoopback(flags.host)) {
        log.warn(
          { host: flags.host },
          'other machines can connect, and keys travel unencrypted: put a proxy with TLS in front',
        )
      }
      return new RunningNode(store, server, admin)
    } catch (error) {
      await server.stop({ drainMs: 0 })
      await admin?.stop({ drainMs: 0 })
      await store.close()
      throw error
    }
  }

  /** Takes no new request, lets those under way finish, and closes the store. */
  async stop({ drainMs }: { drainMs: number }): Promise<void> {
    this.#store.publishSocket(null)
    await Promise.all([this.#server.stop({ drainMs }), this.#admin?.stop({ drainMs })])
    await this.#store.close({ deadlineMs: drainMs })
  }
}

function storeOptions(flags: ServeFlags): StoreOptions {
  const { durability, objectStoreWait, snapshotEvery, incrementalEvery, backupKeep } = flags
  return {
    durability,
    sqlPolicy: 'tenant',
    objectStoreWaitMs: objectStoreWait,
    backups: { snapshotEveryMs: snapshotEvery, incrementalEveryMs: incrementalEvery, keep: backupKeep },
  }
}

/** A node without its socket still serves; what is lost are commands while it runs. */
async function startAdmin(
  service: StoreAdmin,
  paths: StorePaths,
  clock: Clock,
  log: Log,
): Promise<AdminServer | undefined> {
  try {
    return await AdminServer.start({ service, place: SocketPlace.take(paths), clock, log })
  } catch (err) {
    log.warn(
      { err },
      'the socket for commands could not be made: commands work only while the node is stopped',
    )
    return undefined
  }
}
