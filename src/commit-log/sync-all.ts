/** WALs that are fsynced at the same time, in the thread pool. */
const SYNCS_AT_ONCE = 4

/** Fsyncs each of them. @param sync if it fails, no further ones begin in its turn, and the first error is thrown */
export async function syncAll<T>(wals: Iterable<T>, sync: (wal: T) => Promise<void>): Promise<void> {
  const waiting = [...wals]
  const turn = async () => {
    for (let wal = waiting.pop(); wal !== undefined; wal = waiting.pop()) await sync(wal)
  }
  await Promise.all(Array.from({ length: SYNCS_AT_ONCE }, turn))
}
