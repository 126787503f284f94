import { once } from 'node:events'
import { pack as openPack, type Pack } from 'tar-stream'
import { CHECKSUMS_MEMBER, type Checksums, encodeJsonMember, MANIFEST_MEMBER } from './manifest.ts'
import { PacedHash } from './paced-hash.ts'
import type { Spool } from './spool.ts'
import { tarBytes } from './tar-entry.ts'
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
  /** The manifest and the checksums are lists that programs read: they take no line for each value. */
  isCompact?: boolean | undefined
  /** Whether SQLite finds the database sound: the checksums, which come last, say so. */
  isSound?: Promise<boolean> | undefined
  signal?: AbortSignal | undefined
  /** Called with the plain bytes read so far, and how many there are. */
  onProgress?: ((bytes: number, total: number) => void) | undefined
}

/** One chunk, one block. */
const CHUNK_BYTES = 1_048_576

/**
 * Writes an archive, a backup or a log object: a tar with the manifest first and the checksums last, zstd-compressed. The manifest is a
 * block of its own, so that it can be read without the rest.
 */
export async function writeArchive(
  spool: Spool,
  manifest: ArchiveManifest,
  members: readonly MemberSource[],
  options: ArchiveOptions = {},
): Promise<void> {
  const pack = openPack()
  const compressor = new SeekableCompressor((bytes) => spool.write(bytes))
  const manifestBytes = encodeJsonMember(manifest, options.isCompact)
  // A failure of one side ends the other. Both are awaited: neither may write to a spool that is no longer used.
  let cause: unknown
  const broken = Promise.withResolvers<false>()
  const fail = (error: unknown) => {
    cause ??= error
    pack.destroy()
    broken.resolve(false)
  }
  await Promise.all([
    drain(pack, compressor, tarBytes(manifestBytes.length)).catch(fail),
    fill(pack, manifestBytes, members, new Date(manifest.created_at), options, broken.promise).catch(fail),
  ])
  if (cause !== undefined) throw cause
  await compressor.finish()
}

async function drain(pack: Pack, compressor: SeekableCompressor, firstBlockBytes: number): Promise<void> {
  let missing = firstBlockBytes
  for await (const chunk of pack as AsyncIterable<Buffer>) {
    const first = chunk.subarray(0, missing)
    const rest = chunk.subarray(first.length)
    missing -= first.length
    if (first.length > 0) {
      await compressor.push(first)
      if (missing === 0) await compressor.endBlock()
    }
    if (rest.length > 0) await compressor.push(rest, () => release(chunk))
  }
}

async function fill(
  pack: Pack,
  manifestBytes: Buffer,
  members: readonly MemberSource[],
  mtime: Date,
  { isCompact, isSound, signal, onProgress }: ArchiveOptions,
  broken: Promise<false>,
): Promise<void> {
  const total = members.reduce((sum, { size }) => sum + size, 0)
  let done = 0
  const counted = (bytes: number) => {
    signal?.throwIfAborted()
    done += bytes
    onProgress?.(done, total)
  }
  const checksums: Checksums = { members: [] }
  checksums.members.push(await addMember(pack, fromBytes(MANIFEST_MEMBER, manifestBytes), mtime, () => {}))
  for (const member of members) checksums.members.push(await addMember(pack, member, mtime, counted))
  // A check can take minutes, and ends early only once this has failed.
  if (await Promise.race([isSound, broken])) checksums.quick_check = 'ok'
  await addMember(pack, fromBytes(CHECKSUMS_MEMBER, encodeJsonMember(checksums, isCompact)), mtime, () => {})
  pack.finalize()
}

function fromBytes(name: string, bytes: Buffer): MemberSource {
  return { name, size: bytes.length, read: async (into, offset) => void bytes.copy(into, 0, offset) }
}

async function addMember(
  pack: Pack,
  member: MemberSource,
  mtime: Date,
  onBytes: (bytes: number) => void,
): Promise<Checksums['members'][number]> {
  const { name, size } = member
  const hash = new PacedHash()
  const entry = pack.entry({ name, size, mtime, mode: 0o600 })
  const closed = new Promise<void>((resolve, reject) => {
    entry.once('error', reject)
    entry.once('close', resolve)
  })
  closed.catch(() => {})
  for (let offset = 0; offset < size; ) {
    const chunk = allocateBlock(Math.min(CHUNK_BYTES, size - offset))
    await member.read(chunk, offset)
    await hash.update(chunk)
    offset += chunk.length
    onBytes(chunk.length)
    if (!entry.write(chunk)) await Promise.race([once(entry, 'drain'), closed])
    if (entry.destroyed) throw new Error('The archive was cancelled.')
  }
  entry.end(undefined)
  await closed
  return { name, size, sha256: hash.digest() }
}
