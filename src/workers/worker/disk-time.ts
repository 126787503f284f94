/**
 * Milliseconds that a MiB of a write-ahead log is charged: it is written twice, to the log and to the database, on a disk that takes 400 MB a
 * second. By bytes, and not by the clock: how long the disk takes is not up to one account alone, and a slow one must blame nobody.
 */
const MS_PER_MIB = 5
/** Less is not worth a place in a message. */
const WORTH_MS = 0.25

/** What a worker writes for its cells: for that time it waits for the disk. */
export class DiskTime {
  readonly #bytes = new Map<string, number>()

  /** So much of the cell's write-ahead log is in use no more. */
  note(cellId: string, bytes: number): void {
    this.#bytes.set(cellId, (this.#bytes.get(cellId) ?? 0) + bytes)
  }

  /** @returns milliseconds since the last call, by cell */
  take(): [cellId: string, ms: number][] {
    const times = [...this.#bytes].map(([cellId, bytes]): [string, number] => [
      cellId,
      (bytes / 1_048_576) * MS_PER_MIB,
    ])
    this.#bytes.clear()
    return times.filter(([, ms]) => ms >= WORTH_MS)
  }
}
