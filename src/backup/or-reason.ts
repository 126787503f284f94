import { isCellError } from '../errors.ts'

/**
 * What a caller is told of work that its signal has ended: the signal's reason, as of every other call. Inside, and in the log, an
 * ended backup or restore is `busy`.
 *
 * @throws what the work rejects with; the signal's reason
 */
export async function orReason<T>(signal: AbortSignal | undefined, work: Promise<T>): Promise<T> {
  try {
    return await work
  } catch (error) {
    throw signal?.aborted && isCellError(error, 'busy') ? signal.reason : error
  }
}
