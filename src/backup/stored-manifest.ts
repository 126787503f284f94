import { MANIFEST_BYTES_MAX, readManifest } from './archive-reader.ts'
import { checkIdentity, type Expected } from './incoming-builder.ts'
import type { Manifest } from './manifest.ts'
import { backupNotFound } from './object-keys.ts'
import type { CallOptions, ObjectStore } from './object-store.ts'

/** Nearly every manifest is smaller; a larger one takes another request or two. */
const HEAD_BYTES = 16_384

/** The manifest of a version. @throws `backup_not_found`, `backup_corrupt`, and what the object store throws */
export async function fetchManifest(
  store: ObjectStore,
  version: string,
  expected: Expected,
  options: CallOptions = {},
): Promise<Manifest> {
  let head = Buffer.alloc(0)
  for (let length = HEAD_BYTES; ; length *= 8) {
    const more = await read(store, version, head.length, length, options)
    if (more === undefined) throw backupNotFound()
    head = Buffer.concat([head, more])
    const isAll = more.length < length || head.length >= MANIFEST_BYTES_MAX
    const manifest = await readManifest(head, isAll)
    if (manifest === undefined) continue
    checkIdentity(manifest, version, expected)
    return manifest
  }
}

async function read(
  store: ObjectStore,
  key: string,
  offset: number,
  length: number,
  options: CallOptions,
): Promise<Buffer | undefined> {
  const content = await store.get(key, { ...options, range: { offset, length } })
  if (content === undefined) return undefined
  const chunks: Uint8Array[] = []
  for await (const chunk of content.body) chunks.push(chunk)
  return Buffer.concat(chunks)
}
