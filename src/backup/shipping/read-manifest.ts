import { buffer } from 'node:stream/consumers'
import { corrupt } from '../archive/backup-errors.ts'
import { decompressFirstBlock } from '../archive/seekable-zstd.ts'
import type { CallOptions, ObjectStore } from '../object-store/object-store.ts'
import type { LogManifest } from './log-manifest.ts'

const TAR_BLOCK_BYTES = 512
const HEAD_BYTES = 65_536
const HEAD_BYTES_MAX = 8 * 1_048_576

/** Reads the manifest alone, from the first bytes of a log object. @throws `backup_corrupt` that names the object */
export async function readManifestOf(
  store: ObjectStore,
  key: string,
  storeId: string,
  options: CallOptions = {},
): Promise<LogManifest> {
  for (let length = HEAD_BYTES; length <= HEAD_BYTES_MAX; length *= 8) {
    const content = await store.get(key, { ...options, range: { offset: 0, length } })
    if (content === undefined) throw corrupt(key, 'it is missing')
    const plain = await decompressFirstBlock(await buffer(content.body))
    if (plain === undefined) continue
    const size = Number.parseInt(plain.toString('latin1', 124, 135), 8)
    const manifest = parse(plain.toString('utf8', TAR_BLOCK_BYTES, TAR_BLOCK_BYTES + size))
    if (manifest?.key === key && manifest.store_id === storeId) return manifest
    throw corrupt(key, 'its manifest is not that of this log object')
  }
  throw corrupt(key, 'its manifest has no end')
}

function parse(json: string): LogManifest | undefined {
  try {
    return JSON.parse(json)
  } catch {
    return undefined
  }
}
