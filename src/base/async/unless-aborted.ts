/**
 * Waits for shared work, and no longer than one caller wants to. The work continues for its other callers.
 *
 * @throws what the work rejects with; the signal's reason
 */
export function unlessAborted<T>(work: Promise<T>, signal: AbortSignal | undefined): Promise<T> {
  if (signal === undefined) return work
  return new Promise((resolve, reject) => {
    const abandon = () => reject(signal.reason)
    if (signal.aborted) abandon()
    signal.addEventListener('abort', abandon, { once: true })
    work.then(resolve, reject).finally(() => signal.removeEventListener('abort', abandon))
  })
}
