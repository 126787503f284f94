import { buffer } from 'node:stream/consumers'
import { isCellError } from '../../errors.ts'
import { inObject } from '../archive/backup-errors.ts'
import { checkIdentity, type Expected, type Manifest } from '../archive/manifest.ts'
import { checkEnd, SEEK_TABLE_FOOTER_BYTES } from '../archive/zstd/seekable-zstd.ts'
import type { CallOptions, ObjectStore } from '../object-store/object-store.ts'
import { backupNotFound } from './object-keys.ts'

/** A version, and the size of its object. */
export interface StoredVersion {
  version: string
  sizeBytes: number
}

/** Nearly all manifests are smaller. A larger one takes one or two more requests. */
const HEAD_BYTES = 16_384

/**
 * Reads the manifest of a version. Also reads the object's end, so that a truncated object is not taken for whole.
 *
 * @throws `backup_not_found`, `backup_corrupt`, and what the object store throws
 */
export async function fetchManifest(
  store: ObjectStore,
  stored: StoredVersion,
  expected: Expected,
  options: CallOptions = {},
): Promise<Manifest> {
  try {
    return await fetchOnce(store, stored, expected, options)
  } catch (error) {
    if (!isCellError(error, 'backup_corrupt')) throw error
    // The damage may have happened on the way.
    return await fetchOnce(store, stored, expected, options).catch((again) => {
      throw isCellError(again, 'backup_corrupt') ? inObject(stored.version, again) : again
    })
  }
}

async function fetchOnce(
  store: ObjectStore,
  { version, sizeBytes }: StoredVersion,
  expected: Expected,
  options: CallOptions,
): Promise<Manifest> {
  const { MANIFEST_BYTES_MAX, readManifest } = await import('../archive/archive-reader.ts')
  let head = Buffer.alloc(0)
  for (let length = HEAD_BYTES; ; length *= 8) {
    head = Buffer.concat([head, await read(store, version, head.length, length, options)])
    const isAll = head.length >= Math.min(sizeBytes, MANIFEST_BYTES_MAX)
    const manifest = await readManifest(head, isAll)
    if (manifest === undefined) continue
    checkIdentity(manifest, version, expected)
    checkEnd(await end(store, version, sizeBytes, head, options))
    return manifest
  }
}

async function end(
  store: ObjectStore,
  key: string,
  sizeBytes: number,
  head: Buffer,
  options: CallOptions,
): Promise<Buffer> {
  if (head.length >= sizeBytes) return head.subarray(-SEEK_TABLE_FOOTER_BYTES)
  return read(store, key, sizeBytes - SEEK_TABLE_FOOTER_BYTES, SEEK_TABLE_FOOTER_BYTES, options)
}

async function read(
  store: ObjectStore,
  key: string,
  offset: number,
  length: number,
  options: CallOptions,
): Promise<Buffer> {
  const content = await store.get(key, { ...options, range: { offset, length } })
  if (content === undefined) throw backupNotFound()
  return await buffer(content.body)
}
