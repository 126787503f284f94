import { createHash } from 'node:crypto'
import { CHECKSUMS_MEMBER, type Checksums, encodeJsonMember, MANIFEST_MEMBER } from './manifest.ts'
import type { Spool } from './spool.ts'
import { TAR_END_BYTES, tarHeader, tarPadding } from './tar-entry.ts'
import { allocateBlock, release } from './zstd/block-memory.ts'
import { SeekableCompressor } from './zstd/seekable-zstd.ts'

/** A member's plain bytes. */
export interface MemberSource {
  name: string
  size: number
  /** Fills `bytes` with those from `offset` on. */
  read(bytes: Buffer, offset: number): Promise<void>
}

/** What is written first, as JSON. */
export interface ArchiveManifest {
  /** RFC 3339; also the members' time. */
  created_at: string
}

export interface ArchiveOptions {
  /** Whether SQLite finds the database sound: the checksums, which come last, say so. */
  isSound?: Promise<boolean> | undefined
  signal?: AbortSignal | undefined
  /** Called with the plain bytes read so far, and how many there are. */
  onProgress?: ((bytes: number, total: number) => void) | undefined
}

/** One chunk, one block. */
const CHUNK_BYTES = 1_048_576

/**
 * Writes the archive of a backup: a tar with the manifest first and the checksums last, zstd-compressed. The manifest is a
 * block of its own, so that it can be read without the rest.
 */
export async function writeArchive(
  spool: Spool,
  manifest: ArchiveManifest,
  members: readonly MemberSource[],
  { isSound, signal, onProgress }: ArchiveOptions = {},
): Promise<void> {
  const compressor = new SeekableCompressor((bytes) => spool.write(bytes))
  const mtimeMs = Date.parse(manifest.created_at)
  const checksums: Checksums = { members: [] }
  const add = async (member: MemberSource, onBytes?: (bytes: number) => void) => {
    checksums.members.push(await addMember(compressor, member, mtimeMs, onBytes))
  }
  const total = members.reduce((sum, { size }) => sum + size, 0)
  let done = 0
  const counted = (bytes: number) => {
    signal?.throwIfAborted()
    done += bytes
    onProgress?.(done, total)
  }
  await add(fromBytes(MANIFEST_MEMBER, encodeJsonMember(manifest)))
  await compressor.endBlock()
  for (const member of members) await add(member, counted)
  if (await isSound) checksums.quick_check = 'ok'
  const last = fromBytes(CHECKSUMS_MEMBER, encodeJsonMember(checksums))
  await addMember(compressor, last, mtimeMs)
  await compressor.push(Buffer.alloc(TAR_END_BYTES))
  await compressor.finish()
}

function fromBytes(name: string, bytes: Buffer): MemberSource {
  return { name, size: bytes.length, read: async (into, offset) => void bytes.copy(into, 0, offset) }
}

async function addMember(
  compressor: SeekableCompressor,
  { name, size, read }: MemberSource,
  mtimeMs: number,
  onBytes: (bytes: number) => void = () => {},
): Promise<Checksums['members'][number]> {
  const hash = createHash('sha256')
  await compressor.push(tarHeader(name, size, mtimeMs))
  for (let offset = 0; offset < size; ) {
    const chunk = allocateBlock(Math.min(CHUNK_BYTES, size - offset))
    await read(chunk, offset)
    hash.update(chunk)
    offset += chunk.length
    onBytes(chunk.length)
    await compressor.push(chunk, () => release(chunk))
  }
  await compressor.push(Buffer.alloc(tarPadding(size)))
  return { name, size, sha256: hash.digest('hex') }
}
