import * as z from 'zod'
import { DURABILITIES } from '../../engine/cell-settings.ts'
import { corrupt } from './backup-errors.ts'
import {
  CHECKSUMS_MEMBER,
  type Checksums,
  DATABASE_MEMBER,
  FORMAT,
  MANIFEST_MEMBER,
  type Manifest,
  NEWER_FORMAT,
  WAL_MEMBER,
} from './manifest.ts'

const manifestSchema: z.ZodType<Manifest> = z.object({
  format: z.literal(FORMAT),
  store_id: z.uuid(),
  cell_id: z.uuid(),
  account_id: z.uuid().nullable(),
  name: z.string().nullable(),
  cell_created_at: z.iso.datetime(),
  durability: z.enum(DURABILITIES).nullable(),
  version: z.string(),
  kind: z.enum(['snapshot', 'incremental']),
  base_version: z.string().nullable(),
  chain: z.array(z.string()),
  created_at: z.iso.datetime(),
  // A later program may know more of them.
  origin: z.enum(['schedule', 'owner', 'tenant']).optional().catch(undefined),
  sqlite_version: z.string(),
  repeats: z.string().optional(),
  log: z
    .object({
      history: z.string().min(1),
      sequence: z.int().nonnegative(),
      frames: z.int().nonnegative().optional(),
      at: z.int().nonnegative(),
      after: z.string().nullable(),
      prefix: z.string().optional(),
    })
    .optional(),
  database: z.object({ name: z.literal(DATABASE_MEMBER), size: z.int().positive() }).nullable(),
  wals: z.array(
    z.object({
      name: z.string().regex(WAL_MEMBER),
      size: z.int().positive(),
      frames: z.int().positive(),
      page_size: z.int().positive(),
      salts: z.string().regex(/^[0-9a-f]{16}$/),
    }),
  ),
})

const checksumsSchema: z.ZodType<Checksums> = z.object({
  members: z.array(
    z.object({ name: z.string(), size: z.int().nonnegative(), sha256: z.string().regex(/^[0-9a-f]{64}$/) }),
  ),
  quick_check: z.literal('ok').optional().catch(undefined),
})

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
      NEWER_FORMAT,
    )
  }
  throw corrupt(MANIFEST_MEMBER, 'it is not a manifest')
}

/** @throws `backup_corrupt` */
export function decodeChecksums(bytes: Buffer): Checksums {
  const parsed = checksumsSchema.safeParse(parseJson(bytes, CHECKSUMS_MEMBER))
  if (parsed.success) return parsed.data
  throw corrupt(CHECKSUMS_MEMBER, 'it is not a list of checksums')
}

/** @throws `backup_corrupt` */
export function parseJson(bytes: Buffer, member: string): unknown {
  try {
    return JSON.parse(bytes.toString('utf8'))
  } catch {
    throw corrupt(member, 'it is not JSON')
  }
}
