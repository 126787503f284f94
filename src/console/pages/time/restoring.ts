import type { AnswerOf, Client, operations } from '../../../client/index.ts'
import { ProblemError } from '../../../client/index.ts'
import { after } from '../../session/browser-clock.ts'

/** What is brought back: a moment, or a version. */
export type Target = { timestamp: string } | { version: string }

export type Plan = Extract<AnswerOf<operations['restore']>, { objects: unknown }>
export type Status = AnswerOf<operations['getRestore']>
export type Restored = NonNullable<Status['result']>

const POLL_MS = 400

/** What a restore would do. */
export async function planRestore(
  client: Client,
  id: string,
  target: Target,
  signal: AbortSignal,
): Promise<Plan> {
  return (await client.restore({ id, ...target, dry_run: true }, { signal })) as Plan
}

/**
 * Restores a cell in place. It goes on at the server if nobody waits for its end.
 *
 * @throws `ProblemError` of the restore
 */
export async function restoreInPlace(
  client: Client,
  id: string,
  target: Target,
  { signal, onProgress }: { signal: AbortSignal; onProgress: (status: Status) => void },
): Promise<Restored> {
  const headers = { prefer: 'respond-async' }
  let status = (await client.restore({ id, ...target }, { signal, headers })) as unknown as Status
  while (status.state === 'running') {
    onProgress(status)
    await pause(POLL_MS, signal)
    status = await client.getRestore({ id, restore_id: status.id }, { signal })
  }
  if (status.result == null) throw new ProblemError(status.problem as ProblemError['problem'])
  return status.result
}

function pause(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    signal.throwIfAborted()
    const cancel = after(ms, resolve)
    signal.addEventListener('abort', () => {
      cancel()
      reject(signal.reason)
    })
  })
}
