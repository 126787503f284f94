import { unlessAborted } from '../../../base/async/unless-aborted.ts'
import { durationOf } from '../../../service/json/time.ts'
import { type ArchiveCall, archiveActionWith, emptyBody, ok } from '../../core/action.ts'
import { transfer } from '../../core/transfer.ts'

/** Restores a cell whose data is not on this machine: for the store's owner alone. */
export const recover = archiveActionWith(emptyBody, async (call) => ok(await recoverCell(call)))

export type RecoverDocument = Awaited<ReturnType<typeof recoverCell>>

/** The command's end does not end a restore: others may wait for the same one. */
async function recoverCell(call: ArchiveCall) {
  const { service, store } = call.context
  const { clock } = store
  const wasHere = store.databaseBytes(call.cellId) > 0
  const began = clock.monotonic()
  await transfer(call, ({ signal }) =>
    unlessAborted(service.backups.recoverIfLost(call.cellId, 'requested'), signal),
  )
  return {
    id: call.cellId,
    recovered: !wasHere,
    size_bytes: store.databaseBytes(call.cellId),
    duration_ms: durationOf(clock.monotonic() - began),
  }
}
