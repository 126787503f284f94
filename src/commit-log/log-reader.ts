import { findBatch, HEAD_BYTES, type LogEntry, readBatch, readFileHead } from './log-format.ts'

/** What a log file holds. */
export interface LogContents {
  /** In the order in which they were written. */
  records: LogEntry[]
  /** Records of acknowledged commits whose bytes are damaged. */
  damaged: LogEntry[]
  /** Acknowledged records may be missing, and nobody knows of which cells. */
  isNameLost: boolean
}

/**
 * Reads a log file. A batch is written only once the one before it is on disk, and the first one once the head is. So a batch
 * that has a successor was acknowledged, and what is wrong with it is damage. What is wrong with the last one is a torn write,
 * which nobody was told of.
 */
export function readLog(file: Buffer): LogContents {
  const contents: LogContents = { records: [], damaged: [], isNameLost: false }
  const generation = readFileHead(file)
  if (generation == null) return { ...contents, isNameLost: generation === undefined }
  let sequence = 0
  for (let at = HEAD_BYTES; ; ) {
    const here = readBatch(file, at, generation)
    const batch = here ?? findBatch(file, at, generation)
    if (batch === undefined) return contents
    const whole = batch.entries.filter(({ bytes }) => bytes !== undefined)
    const isWhole = whole.length === batch.entries.length
    const isTorn = !isWhole && findBatch(file, batch.end, generation) === undefined
    if (batch.sequence !== sequence + 1) contents.isNameLost = true
    if (isTorn) return contents
    contents.records.push(...whole)
    contents.damaged.push(...batch.entries.filter(({ bytes }) => bytes === undefined))
    sequence = batch.sequence
    at = batch.end
  }
}
