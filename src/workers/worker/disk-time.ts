/**
 * Milliseconds that a MiB of a write-ahead log is charged: it is written twice, to the log and to the database, on a disk that takes 400 MB a
 * second. By bytes, and not by the clock: how long the disk takes is not up to one account alone, and a slow one must blame nobody.
 */
const MS_PER_MIB = 5

/** What a checkpoint takes of the worker's time for which it waits for the disk. */
export function diskMs(movedBytes: number): number {
  return (movedBytes / 1_048_576) * MS_PER_MIB
}
