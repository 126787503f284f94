import { buffer } from 'node:stream/consumers'
import { type CellError, isCellError } from '../../errors.ts'
import type { CallOptions, GetOptions, ObjectStore } from '../object-store/object-store.ts'
import { inObject } from './backup-errors.ts'

/** Nearly all manifests are smaller. A larger one takes one or two more requests. */
const HEAD_BYTES = 16_384

/** The first member of an archive, and all that was read to find it. */
export interface ObjectHead {
  json: Buffer
  /** Length of its entry in the tar. */
  entryBytes: number
  /** The object's first bytes. */
  bytes: Buffer
}

/** Reads part of an object. @param missing what is thrown if there is no such object */
export async function readPart(
  store: ObjectStore,
  key: string,
  range: NonNullable<GetOptions['range']>,
  missing: (key: string) => CellError,
  options: CallOptions = {},
): Promise<Buffer> {
  const content = await store.get(key, { ...options, range })
  if (content === undefined) throw missing(key)
  return await buffer(content.body)
}

/** Reads the first member of an archive alone: the manifest. @throws `backup_corrupt`; as {@link readPart} */
export async function readHead(
  store: ObjectStore,
  key: string,
  sizeBytes: number,
  missing: (key: string) => CellError,
  options: CallOptions = {},
): Promise<ObjectHead> {
  const { MANIFEST_BYTES_MAX, readFirstMember } = await import('./archive-reader.ts')
  let bytes = Buffer.alloc(0)
  for (let length = HEAD_BYTES; ; length *= 8) {
    const range = { offset: bytes.length, length }
    bytes = Buffer.concat([bytes, await readPart(store, key, range, missing, options)])
    const first = await readFirstMember(bytes, bytes.length >= Math.min(sizeBytes, MANIFEST_BYTES_MAX))
    if (first !== undefined) return { ...first, bytes }
  }
}

/** Reads once more if the bytes do not prove themselves: the damage may have happened on the way. @throws `backup_corrupt` that names the object */
export async function provenly<T>(key: string, read: (isRepeat: boolean) => Promise<T>): Promise<T> {
  try {
    return await read(false)
  } catch (error) {
    if (!isCellError(error, 'backup_corrupt')) throw error
    return await read(true).catch((again) => {
      throw isCellError(again, 'backup_corrupt') ? inObject(key, again) : again
    })
  }
}
