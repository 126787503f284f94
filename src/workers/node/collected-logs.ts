import type { CollectedLogs, CollectLimits } from '../../backup/changes/cell-log.ts'
import type { Clock } from '../../base/clock.ts'
import type { WorkerHandle } from './worker-process.ts'

/** A worker that is busy for so long is left out: a tick must not wait for somebody's statement. */
const ANSWER_MS_MAX = 5_000

/** What the cells of all workers have not shipped: each worker gets an equal part of the limits. */
export async function collectFromWorkers(
  workers: readonly WorkerHandle[],
  { cellsMax, bytesMax, ...asked }: CollectLimits,
  clock: Clock,
): Promise<CollectedLogs> {
  const asOf = clock.now()
  const part = (max: number) => Math.max(1, Math.floor(max / Math.max(workers.length, 1)))
  const limits = { cellsMax: part(cellsMax), bytesMax: part(bytesMax), ...asked }
  const answers = await Promise.all(workers.map((worker) => answerOf(worker, limits, clock)))
  const known = answers.filter((answer) => answer !== undefined)
  return {
    logs: known.flatMap(({ logs }) => logs),
    isAll: known.length === answers.length && known.every(({ isAll }) => isAll),
    hasMore: known.some(({ hasMore }) => hasMore),
    withoutHistory: known.flatMap(({ withoutHistory }) => withoutHistory),
    withoutHistoryCount: known.reduce((sum, answer) => sum + answer.withoutHistoryCount, 0),
    unreadable: known.flatMap(({ unreadable }) => unreadable),
    asOf: Math.min(asOf, ...known.map((answer) => answer.asOf)),
  }
}

/** @returns undefined if the worker has ended, or takes too long */
async function answerOf(
  worker: WorkerHandle,
  limits: CollectLimits,
  clock: Clock,
): Promise<CollectedLogs | undefined> {
  const late = Promise.withResolvers<undefined>()
  const timer = clock.setTimer(() => late.resolve(undefined), ANSWER_MS_MAX)
  try {
    return await Promise.race([worker.collectLogs(limits), late.promise])
  } catch {
    return undefined
  } finally {
    timer.cancel()
  }
}
