/**
 * Maps items with a few calls under way at a time. After a failure, or once the signal aborts, none begins.
 *
 * @returns the results in the order of the items
 * @throws the first failure; the signal's reason
 */
export async function mapLimit<T, R>(
  items: readonly T[],
  atOnce: number,
  map: (item: T) => Promise<R>,
  signal?: AbortSignal,
): Promise<R[]> {
  const results: R[] = []
  const rest = items.entries()
  let hasFailed = false
  const turn = async () => {
    for (const [i, item] of rest) {
      if (hasFailed) return
      signal?.throwIfAborted()
      results[i] = await map(item)
    }
  }
  const turns = Array.from({ length: Math.min(atOnce, items.length) }, turn)
  await Promise.all(turns).catch((error) => {
    hasFailed = true
    throw error
  })
  return results
}
