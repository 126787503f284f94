import { createHash } from 'node:crypto'
import { type Extract, extract as openExtract } from 'tar-stream'
import { isError } from '../../base/any-realm.ts'
import { CellError } from '../../errors.ts'
import { corrupt } from './backup-errors.ts'
import { CHECKSUMS_MEMBER, type Checksums, MANIFEST_MEMBER, type Manifest } from './manifest.ts'
import { decodeChecksums, decodeManifest } from './manifest-decoder.ts'
import { BLOCK_BYTES, decompressFirstBlock, decompressSeekable, type Refetch } from './zstd/seekable-zstd.ts'

/** Takes the members of an archive in their order. Its results count only once {@link readArchive} resolves. */
export interface ArchiveSink {
  /** The first call; may refuse the archive. */
  manifest(manifest: Manifest): void
  /**
   * Each member except the manifest and the checksums. Must read all of `bytes`.
   *
   * @returns what it has received
   */
  member(name: string, size: number, bytes: AsyncIterable<Buffer>): Promise<Received>
}

/** A member's bytes as they were received, to compare with the checksums. */
export interface Received {
  size: number
  /** In hexadecimal. */
  sha256: string
}

/** JSON members are small; a larger one is not from a backup of ours. */
const JSON_BYTES_MAX = 4 * 1_048_576
/** The manifest is a block of its own at the front, of at most this many bytes. */
export const MANIFEST_BYTES_MAX = JSON_BYTES_MAX

/**
 * Reads an archive as a stream. Resolves only if every byte was proven: the blocks, the seek table, and each member's
 * length and SHA-256 (invariant 10).
 *
 * @param refetch gets what did not come whole once more
 * @returns whether SQLite's check found the database sound before these very bytes were stored
 * @throws `backup_corrupt`, naming the member; what `source` and `sink` throw
 */
export async function readArchive(
  source: AsyncIterable<Uint8Array>,
  sink: ArchiveSink,
  refetch?: Refetch,
): Promise<boolean> {
  return await readPlain(decompressSeekable(source, refetch), sink)
}

/** As {@link readArchive}, of an archive that is decompressed already, and whose blocks and seek table are proven. */
export async function readPlain(
  plain: AsyncIterable<Buffer> | Iterable<Buffer>,
  sink: ArchiveSink,
): Promise<boolean> {
  const extract = openExtract()
  const plainBytes = new PlainBytes()
  // The first error is the one to report: all others follow from it.
  let cause: unknown
  const fail = (error: unknown) => {
    cause ??= error
    extract.destroy(cause as Error)
  }
  const feeding = feed(plain, extract, plainBytes).catch(fail)
  const checks = readMembers(extract, sink, plainBytes).catch((error) => {
    fail(isDamage(error) ? corrupt('archive', 'it is not a tar', error) : error)
    return undefined
  })
  await Promise.all([feeding, checks])
  if (cause !== undefined) throw cause
  const { seen, checksums } = (await checks) as Members
  if (checksums === undefined) throw corrupt(CHECKSUMS_MEMBER, 'it is missing')
  compareChecksums(seen, checksums.members)
  return checksums.quick_check === 'ok'
}

/**
 * Reads only the manifest's JSON, from the first bytes of an archive, and the length of its entry in the tar, which is the first block.
 *
 * @param isAll there are no more bytes
 * @returns undefined if it needs more bytes
 * @throws `backup_corrupt`
 */
export async function readFirstMember(
  head: Buffer,
  isAll: boolean,
): Promise<{ json: Buffer; entryBytes: number } | undefined> {
  const plain = await decompressFirstBlock(head)
  if (plain === undefined) {
    if (isAll) throw corrupt('archive', 'it ends within its first block')
    return undefined
  }
  const extract = openExtract()
  extract.end(plain)
  try {
    for await (const entry of extract) {
      if (entry.header.name !== MANIFEST_MEMBER) break
      const json = await bytesOf(MANIFEST_MEMBER, entry as AsyncIterable<Buffer>)
      return { json, entryBytes: plain.length }
    }
  } catch (error) {
    throw isDamage(error) ? corrupt('archive', 'it is not a tar', error) : error
  }
  throw corrupt(MANIFEST_MEMBER, 'it is not the first member')
}

/**
 * Plain bytes that an archive may have beyond those that its manifest declares: its JSON members, and blocks that are
 * read before the manifest is. The tar reader keeps a header in memory, however long it says it is.
 */
const UNDECLARED_BYTES_MAX = 2 * JSON_BYTES_MAX + 4 * BLOCK_BYTES
/** A tar header and padding. */
const ENTRY_BYTES = 1_024

class PlainBytes {
  #left = UNDECLARED_BYTES_MAX

  declare({ database, wals }: Manifest): void {
    for (const { size } of [...(database === null ? [] : [database]), ...wals]) {
      this.#left += size + ENTRY_BYTES
    }
  }

  /** @throws `backup_corrupt` */
  count(bytes: number): void {
    this.#left -= bytes
    if (this.#left < 0) throw corrupt('archive', 'it holds more than its manifest declares')
  }
}

interface Members {
  seen: Checksums['members']
  checksums: Checksums | undefined
}

async function readMembers(extract: Extract, sink: ArchiveSink, plainBytes: PlainBytes): Promise<Members> {
  const seen: Checksums['members'] = []
  let manifest: Manifest | undefined
  let checksums: Checksums | undefined
  for await (const entry of extract) {
    const { name, size = 0 } = entry.header
    if (checksums !== undefined) throw corrupt(name, 'it follows the checksums')
    const bytes = entry as AsyncIterable<Buffer>
    if (name === CHECKSUMS_MEMBER) checksums = decodeChecksums(await bytesOf(name, bytes))
    else if (manifest === undefined) {
      if (name !== MANIFEST_MEMBER) throw corrupt(MANIFEST_MEMBER, 'it is not the first member')
      const json = await bytesOf(name, bytes)
      manifest = decodeManifest(json)
      sink.manifest(manifest)
      plainBytes.declare(manifest)
      seen.push({ name, size: json.length, sha256: createHash('sha256').update(json).digest('hex') })
    } else seen.push({ name, ...(await sink.member(name, size, bytes)) })
  }
  return { seen, checksums }
}

async function feed(
  plainSource: AsyncIterable<Buffer> | Iterable<Buffer>,
  extract: Extract,
  plainBytes: PlainBytes,
): Promise<void> {
  for await (const plain of plainSource) {
    if (extract.destroyed) return
    plainBytes.count(plain.length)
    if (!extract.write(plain)) {
      await new Promise<void>((resolve) => {
        // Each removes both listeners: a large archive waits thousands of times.
        const done = () => {
          extract.off('drain', done).off('close', done)
          resolve()
        }
        extract.on('drain', done).on('close', done)
      })
    }
  }
  extract.end(undefined)
}

/** The tar reader throws plain errors; those of a disk or of a caller are not the archive's fault. */
function isDamage(error: unknown): boolean {
  return !(error instanceof CellError) && isError(error) && error.constructor === Error && !('code' in error)
}

function compareChecksums(seen: Checksums['members'], expected: Checksums['members']): void {
  for (const { name, size, sha256 } of expected) {
    const member = seen.find((each) => each.name === name)
    if (member === undefined) throw corrupt(name, 'it is missing')
    if (member.size !== size) throw corrupt(name, `it has ${member.size} bytes instead of ${size}`)
    if (member.sha256 !== sha256) throw corrupt(name, 'its SHA-256 does not match')
  }
  if (seen.length !== expected.length) throw corrupt(CHECKSUMS_MEMBER, 'a member is not listed')
}

async function bytesOf(name: string, bytes: AsyncIterable<Buffer>): Promise<Buffer> {
  const chunks: Buffer[] = []
  let size = 0
  for await (const chunk of bytes) {
    size += chunk.length
    if (size > JSON_BYTES_MAX) throw corrupt(name, 'it is larger than any this version writes')
    chunks.push(chunk)
  }
  return Buffer.concat(chunks)
}
