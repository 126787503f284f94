import { createHash } from 'node:crypto'
import { type Received, readArchive, readFirstMember } from '../../../src/backup/archive/archive-reader.ts'
import {
  type ArchiveOptions,
  type MemberSource,
  writeArchive,
} from '../../../src/backup/archive/archive-writer.ts'
import type { Manifest } from '../../../src/backup/archive/manifest.ts'
import { decodeManifest } from '../../../src/backup/archive/manifest-decoder.ts'
import { Spool } from '../../../src/backup/archive/spool.ts'
import { tempDirectory } from '../temp-directory.ts'

export function manifestOf(changes: Partial<Manifest> = {}): Manifest {
  const cell = '0b8f3c52-6f4e-4d0a-9a52-0d7f5a3c9e11'
  return {
    format: 1,
    store_id: '5d2c0f11-1c1b-4c7e-8a44-3b5a1f6e7d22',
    cell_id: cell,
    account_id: null,
    name: 'acme',
    cell_created_at: '2026-11-21T02:02:13.000Z',
    durability: null,
    version: `snapshots/${cell}/backup-20261121T020213.123Z`,
    kind: 'snapshot',
    base_version: null,
    chain: [],
    created_at: '2026-11-21T02:02:13.123Z',
    sqlite_version: '3.53.2',
    database: { name: 'cell.db', size: 1 },
    wals: [],
    ...changes,
  }
}

export function memberOf(name: string, bytes: Buffer): MemberSource {
  const read = async (into: Buffer, offset: number) => {
    bytes.copy(into, 0, offset)
  }
  return { name, size: bytes.length, read }
}

/** The bytes of an archive. */
export async function archiveOf(
  members: readonly MemberSource[],
  manifest = manifestOf(),
  options: ArchiveOptions = {},
): Promise<Buffer> {
  const spool = new Spool(tempDirectory())
  try {
    await writeArchive(spool, manifest, members, options)
    const { body, sha256 } = await spool.finish()
    const bytes = Buffer.from(await body.read(0, body.size))
    if (createHash('sha256').update(bytes).digest('hex') !== sha256)
      throw new Error('The SHA-256 is of other bytes.')
    return bytes
  } finally {
    await spool.dispose()
  }
}

/** As `readFirstMember`. */
export async function readManifest(head: Buffer, isAll: boolean): Promise<Manifest | undefined> {
  const first = await readFirstMember(head, isAll)
  return first && decodeManifest(first.json)
}

/** Reads an archive that comes in chunks of some size. */
export async function membersIn(archive: Buffer, chunkBytes = 65_536): Promise<Map<string, Buffer>> {
  const members = new Map<string, Buffer>()
  await readArchive(inChunks(archive, chunkBytes), {
    manifest: (manifest) => void members.set('manifest.json', Buffer.from(JSON.stringify(manifest))),
    member: async (name, _size, bytes) => {
      const chunks: Buffer[] = []
      const received = await receive(bytes, (chunk) => chunks.push(chunk))
      members.set(name, Buffer.concat(chunks))
      return received
    },
  })
  return members
}

/** Reads a member's bytes, and says what they were. */
export async function receive(
  bytes: AsyncIterable<Buffer>,
  onChunk: (chunk: Buffer) => void = () => {},
): Promise<Received> {
  const sha256 = createHash('sha256')
  let size = 0
  for await (const chunk of bytes) {
    sha256.update(chunk)
    size += chunk.length
    onChunk(chunk)
  }
  return { size, sha256: sha256.digest('hex') }
}

/** Each chunk in the memory of the one before, as a store may give them to a restore. */
export async function* inChunks(bytes: Buffer, chunkBytes: number): AsyncGenerator<Uint8Array> {
  const memory = Buffer.alloc(Math.min(chunkBytes, bytes.length))
  for (let at = 0; at < bytes.length; at += chunkBytes) {
    yield memory.subarray(0, bytes.copy(memory, 0, at, at + chunkBytes))
    memory.fill(0xff)
  }
}

/** Where the blocks of an archive end, as its own seek table says; the last one is the table itself. */
export function blockEnds(archive: Buffer): number[] {
  const count = archive.readUInt32LE(archive.length - 9)
  const table = archive.length - 9 - count * 8
  const ends: number[] = []
  for (let i = 0, at = 0; i < count; i++) {
    at += archive.readUInt32LE(table + i * 8)
    ends.push(at)
  }
  return [...ends, archive.length]
}
