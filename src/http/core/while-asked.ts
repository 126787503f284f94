import { type HttpRequest, RequestAborted } from './http-message.ts'

/**
 * Runs work that ends when its client goes away. Nobody is told then how it ended, and whatever it ended with is no bug of ours.
 *
 * @throws what the work throws; {@link RequestAborted}
 */
export async function whileAsked<T>(
  { signal }: Pick<HttpRequest, 'signal'>,
  work: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  try {
    return await work(signal)
  } catch (error) {
    throw signal.aborted ? new RequestAborted() : error
  }
}
