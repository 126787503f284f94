import type { CellError } from '../../../errors.ts'
import { corrupt, inObject } from '../../archive/backup-errors.ts'
import { provenly, readHead, readPart } from '../../archive/object-head.ts'
import { decodeSeekTable, decompressBlock, type PlacedBlock } from '../../archive/zstd/seekable-zstd.ts'
import type { CallOptions, ObjectStore } from '../../object-store/object-store.ts'
import type { LogManifest } from '../log/log-manifest.ts'

/** A log object as a listing shows it. */
export interface StoredLog {
  key: string
  sizeBytes: number
}

/** A log object's manifest, and where its members begin. */
export interface ReadLogManifest {
  manifest: LogManifest
  /** Length of the manifest's entry in the tar: offsets of pieces count from here. */
  entryBytes: number
}

/** Holds the seek table of any object, and all of most objects. */
const TAIL_BYTES = 65_536
/** Plain bytes that one request of a large member brings. */
const READ_BYTES = 4 * 1_048_576

/** Reads the manifest alone. @throws `backup_corrupt` that names the object; what the object store throws */
export function readLogManifest(
  store: ObjectStore,
  stored: StoredLog,
  storeId: string,
): Promise<ReadLogManifest> {
  return provenly(stored.key, async () => {
    const { decodeLogManifest } = await import('../log/log-manifest-decoder.ts')
    const { json, entryBytes } = await readHead(store, stored.key, stored.sizeBytes, missingLog)
    return { manifest: decodeLogManifest(json, stored.key, storeId), entryBytes }
  })
}

/** The end of a log object. */
export interface LogTail {
  blocks: PlacedBlock[]
  /** The object's last bytes. What is in them need not be read again. */
  bytes: Buffer
  /** Where they begin in the object. */
  offset: number
}

/** @throws as {@link readLogManifest} */
export function readLogTail(store: ObjectStore, { key, sizeBytes }: StoredLog): Promise<LogTail> {
  return provenly(key, async () => {
    for (let length = TAIL_BYTES; ; length *= 8) {
      const bytes = await readPart(store, key, { last: Math.min(length, sizeBytes) }, missingLog)
      const blocks = decodeSeekTable(bytes, sizeBytes)
      if (blocks !== undefined) return { blocks, bytes, offset: sizeBytes - bytes.length }
    }
  })
}

/**
 * A part of the tar, in chunks: only the blocks that hold it are read, and each proves itself by its checksum.
 *
 * @throws as {@link readLogManifest}
 */
export async function* readLogBytes(
  store: ObjectStore,
  key: string,
  tail: LogTail,
  from: number,
  to: number,
  options: CallOptions,
): AsyncGenerator<Buffer> {
  const needed = blocksWith(tail.blocks, from, to)
  const end = needed.at(-1)
  if (end === undefined || end.start + end.plain < to)
    throw inObject(key, corrupt('archive', 'it ends before the members that its manifest names'))
  for (const group of groupsOf(needed)) {
    const fromTail = (group[0] as PlacedBlock).offset >= tail.offset
    const plains = await provenly(key, (isRepeat) =>
      readBlocks(store, key, fromTail && !isRepeat ? tail : undefined, group, options),
    )
    for (const [i, plain] of plains.entries()) {
      const { start } = group[i] as PlacedBlock
      yield plain.subarray(Math.max(0, from - start), Math.min(plain.length, to - start))
    }
  }
}

/** The blocks that hold a part of the tar. */
export function blocksWith(blocks: readonly PlacedBlock[], from: number, to: number): PlacedBlock[] {
  return blocks.filter(({ start, plain }) => start < to && start + plain > from)
}

export function missingLog(key: string): CellError {
  return inObject(key, corrupt(key, 'this log object is missing'))
}

/** Blocks that one request brings. */
function groupsOf(blocks: readonly PlacedBlock[]): PlacedBlock[][] {
  const groups: PlacedBlock[][] = []
  let bytes = Number.POSITIVE_INFINITY
  for (const block of blocks) {
    bytes += block.plain
    if (bytes > READ_BYTES) {
      groups.push([])
      bytes = block.plain
    }
    groups.at(-1)?.push(block)
  }
  return groups
}

async function readBlocks(
  store: ObjectStore,
  key: string,
  tail: LogTail | undefined,
  blocks: readonly PlacedBlock[],
  options: CallOptions,
): Promise<Buffer[]> {
  const offset = (blocks[0] as PlacedBlock).offset
  const length = blocks.reduce((sum, { compressed }) => sum + compressed, 0)
  const bytes = tail
    ? tail.bytes.subarray(offset - tail.offset, offset - tail.offset + length)
    : await readPart(store, key, { offset, length }, missingLog, options)
  if (bytes.length !== length) throw corrupt('archive', 'it ends within its blocks')
  return await Promise.all(
    blocks.map(async (block) => {
      const at = block.offset - offset
      const plain = await decompressBlock(bytes.subarray(at, at + block.compressed))
      if (plain.length !== block.plain) throw corrupt('archive', 'its seek table does not match its blocks')
      return plain
    }),
  )
}
