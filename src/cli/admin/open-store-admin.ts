import type { Clock } from '../../base/clock.ts'
import type { Log } from '../../base/log.ts'
import { CellError, isCellError } from '../../errors.ts'
import { DEFAULT_HTTP_LIMITS, REQUEST_DEADLINE_MS_DEFAULT } from '../../http/handler-options.ts'
import { InProcessService } from '../../service/in-process-service.ts'
import { CellStore } from '../../store/cell-store.ts'
import { objectStoreOf, type StoreFlags } from '../flags.ts'
import type { AdminService } from './admin-service.ts'
import { StoreAdmin } from './store-admin.ts'

/**
 * Opens the store in this process: no node runs on it.
 *
 * @throws `store_not_found`, `store_locked`, and as opening a store does
 */
export async function openStoreAdmin(flags: StoreFlags, clock: Clock, log: Log): Promise<AdminService> {
  const options = { objectStore: objectStoreOf(flags), objectStoreWaitMs: flags.objectStoreWait, clock, log }
  const store = await CellStore.open(flags.dataDir, options).catch((error) => {
    throw isCellError(error, 'store_not_found') ? noStore(flags) : error
  })
  const service = new InProcessService(store, {
    restoreWaitMs: REQUEST_DEADLINE_MS_DEFAULT,
    answerBytesMax: DEFAULT_HTTP_LIMITS.result.bytesMax,
  })
  return new StoreAdmin(store, service)
}

function noStore(flags: StoreFlags): CellError {
  return new CellError(
    'store_not_found',
    `There is no store in ${flags.dataDir}, and none in ${objectStoreOf(flags)}. \`cellstore serve\` makes one.`,
  )
}
