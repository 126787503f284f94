import zlib from 'node:zlib'

/**
 * The format of a log file: docs/format.md, "The commit log". A head, then batches. Numbers are little-endian. A file is
 * used again without being erased: every batch carries the generation that the head names, and older ones end the log.
 */
export const HEAD_BYTES = 512
const FILE_MAGIC = Buffer.from('cellstore log 1\n')
export const GENERATION_BYTES = 8
export const SALTS_BYTES = 8

const BATCH_MAGIC = Buffer.from('clb1')
const BATCH_HEAD_BYTES = 40
const ENTRY_BYTES = 40
const CELL_ID_BYTES = 16
/** Batches begin at multiples of this. */
const ALIGNMENT = 8

/** Bytes that commits have added to the write-ahead log (WAL) of a cell. */
export interface LogRecord {
  cellId: string
  /** The salts in the WAL's header: they tell one generation of the WAL from the next. */
  salts: Buffer
  /** Where the bytes stand in the WAL. */
  offset: number
  bytes: Buffer
}

/** A record as the directory of its batch names it. */
export interface LogEntry extends Omit<LogRecord, 'bytes'> {
  length: number
  /** Undefined if they are damaged. */
  bytes: Buffer | undefined
}

interface LogBatch {
  /** Counts from 1 in each generation. */
  sequence: number
  /** When it was written, in epoch milliseconds. */
  time: number
  entries: LogEntry[]
  /** Where the next one begins. */
  end: number
}

export function encodeFileHead(generation: Buffer, length: number): Buffer {
  const head = Buffer.alloc(HEAD_BYTES)
  FILE_MAGIC.copy(head)
  generation.copy(head, 16)
  head.writeBigUInt64LE(BigInt(length), 24)
  head.writeUInt32LE(zlib.crc32(head.subarray(0, 32)), 32)
  return head
}

/** @returns the generation of the file's batches; null if it never had a head, undefined if its head is damaged */
function readFileHead(file: Buffer): Buffer | null | undefined {
  const head = file.subarray(0, HEAD_BYTES)
  if (head.length < HEAD_BYTES || head.every((byte) => byte === 0)) return null
  const isMagic = head.subarray(0, FILE_MAGIC.length).equals(FILE_MAGIC)
  if (!isMagic || head.readUInt32LE(32) !== zlib.crc32(head.subarray(0, 32))) return undefined
  return head.subarray(16, 16 + GENERATION_BYTES)
}

export function batchBytes(records: readonly LogRecord[]): number {
  const bytes = records.reduce((sum, record) => sum + ENTRY_BYTES + record.bytes.length, BATCH_HEAD_BYTES)
  return Math.ceil(bytes / ALIGNMENT) * ALIGNMENT
}

/** @param memory of {@link batchBytes}, which becomes the batch */
export function encodeBatch(
  records: readonly LogRecord[],
  { generation, sequence, time }: { generation: Buffer; sequence: number; time: number },
  memory: Buffer = Buffer.allocUnsafe(batchBytes(records)),
): Buffer {
  const batch = memory
  BATCH_MAGIC.copy(batch)
  generation.copy(batch, 4)
  batch.writeUInt32LE(sequence, 12)
  batch.writeUInt32LE(batch.length, 16)
  batch.writeUInt32LE(records.length, 20)
  batch.writeDoubleLE(time, 24)
  batch.writeUInt32LE(0, 32)
  let at = BATCH_HEAD_BYTES
  for (const { cellId, salts, offset, bytes } of records) {
    batch.write(cellId.replaceAll('-', ''), at, 'hex')
    salts.copy(batch, at + CELL_ID_BYTES)
    batch.writeBigUInt64LE(BigInt(offset), at + 24)
    batch.writeUInt32LE(bytes.length, at + 32)
    batch.writeUInt32LE(zlib.crc32(bytes), at + 36)
    at += ENTRY_BYTES
  }
  batch.writeUInt32LE(directoryChecksum(batch, at), 36)
  for (const { bytes } of records) at += bytes.copy(batch, at)
  batch.fill(0, at)
  return batch
}

/** Of the head without the checksum itself, and the directory. */
function directoryChecksum(batch: Buffer, end: number): number {
  return zlib.crc32(batch.subarray(BATCH_HEAD_BYTES, end), zlib.crc32(batch.subarray(0, 36)))
}

/** @returns the batch that begins there; undefined if none of this generation does, or its directory is damaged */
function readBatch(file: Buffer, at: number, generation: Buffer): LogBatch | undefined {
  if (at + BATCH_HEAD_BYTES > file.length || !isBatchStart(file, at, generation)) return undefined
  const end = at + file.readUInt32LE(at + 16)
  const count = file.readUInt32LE(at + 20)
  const directoryEnd = at + BATCH_HEAD_BYTES + count * ENTRY_BYTES
  if (end > file.length || directoryEnd > end) return undefined
  const batch = file.subarray(at, end)
  if (batch.readUInt32LE(36) !== directoryChecksum(batch, directoryEnd - at)) return undefined
  const entries: LogEntry[] = []
  let bytesAt = directoryEnd
  for (let entry = at + BATCH_HEAD_BYTES; entry < directoryEnd; entry += ENTRY_BYTES) {
    const length = file.readUInt32LE(entry + 32)
    const bytes = file.subarray(bytesAt, bytesAt + length)
    const isWhole = bytes.length === length && zlib.crc32(bytes) === file.readUInt32LE(entry + 36)
    entries.push({
      cellId: toUuid(file.toString('hex', entry, entry + CELL_ID_BYTES)),
      salts: file.subarray(entry + CELL_ID_BYTES, entry + CELL_ID_BYTES + SALTS_BYTES),
      offset: Number(file.readBigUInt64LE(entry + 24)),
      length,
      bytes: isWhole ? bytes : undefined,
    })
    bytesAt += length
  }
  return { sequence: batch.readUInt32LE(12), time: batch.readDoubleLE(24), entries, end }
}

/** Looks for a batch of this generation from there on, whatever stands before it. */
function findBatch(file: Buffer, from: number, generation: Buffer): LogBatch | undefined {
  const start = Buffer.concat([BATCH_MAGIC, generation])
  for (let at = file.indexOf(start, from); at !== -1; at = file.indexOf(start, at + 1)) {
    const batch = at % ALIGNMENT === 0 ? readBatch(file, at, generation) : undefined
    if (batch !== undefined) return batch
  }
  return undefined
}

function isBatchStart(file: Buffer, at: number, generation: Buffer): boolean {
  const isMagic = file.subarray(at, at + 4).equals(BATCH_MAGIC)
  return isMagic && file.subarray(at + 4, at + 4 + GENERATION_BYTES).equals(generation)
}

function toUuid(hex: string): string {
  return [hex.slice(0, 8), hex.slice(8, 12), hex.slice(12, 16), hex.slice(16, 20), hex.slice(20)].join('-')
}

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
