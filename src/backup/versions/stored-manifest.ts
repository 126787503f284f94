import { checkIdentity, type Expected, type Manifest } from '../archive/manifest.ts'
import { provenly, readHead, readPart } from '../archive/object-head.ts'
import { checkEnd, SEEK_TABLE_FOOTER_BYTES } from '../archive/zstd/seekable-zstd.ts'
import type { CallOptions, ObjectStore } from '../object-store/object-store.ts'
import { backupNotFound } from './object-keys.ts'

/** A version, and the size of its object. */
export interface StoredVersion {
  version: string
  sizeBytes: number
}

/**
 * Reads the manifest of a version. Also reads the object's end, so that a truncated object is not taken for whole.
 *
 * @throws `backup_not_found`, `backup_corrupt`, and what the object store throws
 */
export function fetchManifest(
  store: ObjectStore,
  { version, sizeBytes }: StoredVersion,
  expected: Expected,
  options: CallOptions = {},
): Promise<Manifest> {
  return provenly(version, async () => {
    const { decodeManifest } = await import('../archive/manifest-decoder.ts')
    const { json, bytes } = await readHead(store, version, sizeBytes, backupNotFound, options)
    const manifest = decodeManifest(json)
    checkIdentity(manifest, version, expected)
    const isAll = bytes.length >= sizeBytes
    const end = { offset: sizeBytes - SEEK_TABLE_FOOTER_BYTES, length: SEEK_TABLE_FOOTER_BYTES }
    checkEnd(
      isAll
        ? bytes.subarray(-SEEK_TABLE_FOOTER_BYTES)
        : await readPart(store, version, end, backupNotFound, options),
    )
    return manifest
  })
}
