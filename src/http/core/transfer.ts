import type { BackupOptions } from '../../backup/versions/backup-types.ts'
import type { Call } from './action.ts'
import { whileConnected } from './http-message.ts'

/**
 * Backs up, restores or verifies. The owner's command sees the progress, and its end ends the work; a tenant's work goes on without
 * its client.
 */
export async function transfer<T>(
  { accountId, request, requestId, permit }: Call,
  run: (options: BackupOptions) => Promise<T>,
): Promise<T> {
  if (accountId !== undefined) return await run({ permit, requestId })
  const { onProgress } = request
  return await whileConnected(request, (signal) => run({ signal, onProgress, requestId }))
}
