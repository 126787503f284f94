import { randomUUID } from 'node:crypto'
import { dirname, join } from 'node:path'

/** Bytes of a file's name. */
const NAME_BYTES_MAX = 255
/** A key without slashes, and an id. */
const FLAT_NAME = /^([^/]+)\.[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/

/**
 * Where the next unfinished file of an object is written, relative to the folder of all of them. Its key is in its name. If that is too
 * long, it is in a folder that is named for the key; each of its folders costs as much as the file.
 */
export function unfinishedFile(key: string): string {
  const id = randomUUID()
  const name = `${encodeURIComponent(key)}.${id}`
  return name.length <= NAME_BYTES_MAX ? name : join(key, id)
}

/** A file that keeps other writers of the key out, relative to the same folder. */
export function claimFile(key: string): string {
  return join(key, 'claim')
}

/** The key of a file below that folder. */
export function keyOfUnfinished(file: string): string {
  const flat = FLAT_NAME.exec(file)
  try {
    return flat === null ? dirname(file) : decodeURIComponent(flat[1] as string)
  } catch {
    // It is not one of ours.
    return file
  }
}
