import { createHash, getFips } from 'node:crypto'
import { turnOfTheLoop } from '../../../base/clock.ts'

/** Hashed in one step, which takes about 0.4 ms. */
const SLICE_BYTES = 262_144

/**
 * The `Content-MD5` of a PUT: the one checksum that every S3 knows. A bucket with object lock refuses a PUT without one, and
 * any endpoint refuses bytes that changed on the way. Gives way to other work between the slices.
 *
 * @returns undefined where MD5 is not allowed (FIPS)
 */
export async function contentMd5(bytes: Uint8Array): Promise<string | undefined> {
  if (getFips() === 1) return undefined
  const hash = createHash('md5')
  for (let at = 0; at < bytes.length; at += SLICE_BYTES) {
    if (at > 0) await turnOfTheLoop()
    hash.update(bytes.subarray(at, at + SLICE_BYTES))
  }
  return hash.digest('base64')
}
