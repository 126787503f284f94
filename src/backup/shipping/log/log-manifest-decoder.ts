import * as z from 'zod'
import { corrupt } from '../../archive/backup-errors.ts'
import { MANIFEST_MEMBER, NEWER_FORMAT } from '../../archive/manifest.ts'
import { parseJson } from '../../archive/manifest-decoder.ts'
import { parseLogKey } from '../../versions/object-keys.ts'
import { LOG_FORMAT, type LogManifest } from './log-manifest.ts'

const count = z.int().nonnegative()
const frames = z.int().positive()

const schema: z.ZodType<LogManifest> = z.object({
  format: z.literal(LOG_FORMAT),
  kind: z.literal('log'),
  store_id: z.uuid(),
  key: z.string(),
  epoch: count,
  number: z.int().positive(),
  previous: z.object({ key: z.string(), sha256: z.string().regex(/^[0-9a-f]{64}$/) }).nullable(),
  from: z.number(),
  to: z.number(),
  complete: z.boolean(),
  complete_to: z.number().optional(),
  created_at: z.iso.datetime(),
  cells: z.array(
    z.object({
      cell_id: z.uuid(),
      account_id: z.uuid().nullable(),
      history: z.string(),
      pieces: z.array(
        z.object({
          member: z.string(),
          offset: count,
          size: z.int().positive(),
          sequence: count,
          salts: z.string().regex(/^[0-9a-f]{16}$/),
          page_size: z.int().positive(),
          from: count,
          to: frames,
          commits: z.array(z.tuple([frames, z.number()])).min(1),
        }),
      ),
    }),
  ),
})

/**
 * @param key the object's own
 * @throws `backup_corrupt`, also for the right bytes in the wrong place
 */
export function decodeLogManifest(bytes: Buffer, key: string, storeId: string): LogManifest {
  const value = parseJson(bytes, MANIFEST_MEMBER)
  const parsed = schema.safeParse(value)
  if (!parsed.success) throw undecodable(value)
  const manifest = parsed.data
  const place = parseLogKey(key)
  if (manifest.store_id !== storeId) throw corrupt(MANIFEST_MEMBER, 'it is that of another store')
  if (manifest.key !== key || manifest.epoch !== place?.epoch || manifest.number !== place.number)
    throw corrupt(MANIFEST_MEMBER, 'it is that of another object')
  return manifest
}

function undecodable(value: unknown) {
  const format = (value as { format?: unknown } | null)?.format
  if (typeof format !== 'number' || format <= LOG_FORMAT)
    return corrupt(MANIFEST_MEMBER, 'it is not the manifest of a log object')
  return corrupt(
    MANIFEST_MEMBER,
    `it is of format ${format}, and this version reads up to ${LOG_FORMAT}; update cellstore`,
    NEWER_FORMAT,
  )
}
