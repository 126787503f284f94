import { z } from 'zod'
import { corrupt } from './backup-errors.ts'

/** docs/format.md describes every field. A reader refuses a format it does not know. */
export const FORMAT = 1

export const MANIFEST_MEMBER = 'manifest.json'
export const DATABASE_MEMBER = 'cell.db'
export const CHECKSUMS_MEMBER = 'checksums.json'

const WAL_MEMBER = /^wal-\d{6}$/

/** Write-ahead logs apply in the order of their numbers. */
export function walMember(index: number): string {
  return `wal-${String(index + 1).padStart(6, '0')}`
}

const walSchema = z.object({
  name: z.string().regex(WAL_MEMBER),
  size: z.int().positive(),
  /** Frames up to the last commit: restore proves that SQLite took every one of them. */
  frames: z.int().positive(),
  page_size: z.int().positive(),
  /** The two salts of the log's header, in hexadecimal. */
  salts: z.string().regex(/^[0-9a-f]{16}$/),
})

const manifestSchema = z.object({
  format: z.literal(FORMAT),
  store_id: z.uuid(),
  cell_id: z.uuid(),
  account_id: z.uuid().nullable(),
  name: z.string().nullable(),
  cell_created_at: z.iso.datetime(),
  durability: z.enum(['full', 'relaxed']).nullable(),
  version: z.string(),
  kind: z.enum(['snapshot', 'incremental']),
  /** The version whose database image this one rests on; null if it holds one itself. */
  base_version: z.string().nullable(),
  /** Every version that has to be applied before this one, oldest first, beginning with the base. */
  chain: z.array(z.string()),
  created_at: z.iso.datetime(),
  sqlite_version: z.string(),
  database: z.object({ name: z.literal(DATABASE_MEMBER), size: z.int().positive() }).nullable(),
  wals: z.array(walSchema),
})

export type Manifest = z.infer<typeof manifestSchema>
/** What is kept in memory of a version: not its many logs. */
export type ManifestHead = Omit<Manifest, 'database' | 'wals'>

const checksumsSchema = z.object({
  members: z.array(
    z.object({ name: z.string(), size: z.int().nonnegative(), sha256: z.string().regex(/^[0-9a-f]{64}$/) }),
  ),
})

export type Checksums = z.infer<typeof checksumsSchema>

export function encodeJsonMember(value: Manifest | Checksums): Buffer {
  return Buffer.from(`${JSON.stringify(value, null, 2)}\n`)
}

/** @throws `backup_corrupt`; for a newer format, with the advice to update */
export function decodeManifest(bytes: Buffer): Manifest {
  const value = parseJson(bytes, MANIFEST_MEMBER)
  const parsed = manifestSchema.safeParse(value)
  if (parsed.success) return parsed.data
  const format = (value as { format?: unknown } | null)?.format
  if (typeof format === 'number' && format > FORMAT) {
    throw corrupt(
      MANIFEST_MEMBER,
      `it is of format ${format}, and this version reads up to ${FORMAT}; update cellstore`,
    )
  }
  throw corrupt(MANIFEST_MEMBER, 'it is not a manifest')
}

/** Whose backup it has to be. */
export interface Expected {
  storeId: string
  cellId: string
}

/** @throws `backup_corrupt` for the right bytes in the wrong place */
export function checkIdentity(manifest: ManifestHead, version: string, { storeId, cellId }: Expected): void {
  if (manifest.version !== version) throw corrupt(MANIFEST_MEMBER, 'it is that of another version')
  if (manifest.cell_id !== cellId) throw corrupt(MANIFEST_MEMBER, 'it is that of another cell')
  if (manifest.store_id !== storeId) throw corrupt(MANIFEST_MEMBER, 'it is that of another store')
}

/** @throws `backup_corrupt` */
export function decodeChecksums(bytes: Buffer): Checksums {
  const parsed = checksumsSchema.safeParse(parseJson(bytes, CHECKSUMS_MEMBER))
  if (parsed.success) return parsed.data
  throw corrupt(CHECKSUMS_MEMBER, 'it is not a list of checksums')
}

function parseJson(bytes: Buffer, member: string): unknown {
  try {
    return JSON.parse(bytes.toString('utf8'))
  } catch {
    throw corrupt(member, 'it is not JSON')
  }
}
