import { randomUUID } from 'node:crypto'
import fs from 'node:fs/promises'
import path from 'node:path'
import { pipeline } from 'node:stream/promises'
import { DIRECTORY_MODE, FILE_MODE } from '../base/durable-files.ts'
import { freeBytes } from '../base/free-bytes.ts'
import { CellError } from '../errors.ts'

/** What stays free on the disk, for everybody else. */
const SPARE_BYTES = 64 * 1_048_576

/** A file on its way into the store or out of it. A start empties the spool. */
export async function newSpoolFile(spool: string, purpose: 'export' | 'import'): Promise<string> {
  await fs.mkdir(spool, { recursive: true, mode: DIRECTORY_MODE })
  return path.join(spool, `${purpose}-${randomUUID()}.db`)
}

/** Removes a file of the spool, and what SQLite made next to it. */
export async function removeSpoolFile(file: string): Promise<void> {
  for (const suffix of ['', '-journal', '-wal', '-shm']) await fs.rm(file + suffix, { force: true })
}

/** @throws `disk_full` if a file of this size would not leave room for others */
export function checkRoomFor(bytes: number, spool: string): void {
  const free = freeBytes(spool)
  if (bytes + SPARE_BYTES <= free) return
  throw new CellError(
    'disk_full',
    `The file takes ${bytes} bytes, the disk has ${free}, and ${SPARE_BYTES} of them stay free.`,
  )
}

/** How a stream is written to the spool. */
export interface Receiving {
  /** Bytes that the file may have. */
  bytesMax: number
  /** What is thrown for more. */
  tooLarge(): CellError
  signal?: AbortSignal | undefined
  /** Called with the bytes so far. */
  onBytes?: ((bytes: number) => void) | undefined
}

/** Writes a stream to a new file, no faster than the disk takes it. @returns its bytes */
export async function receiveFile(
  source: AsyncIterable<Uint8Array>,
  file: string,
  { bytesMax, tooLarge, signal, onBytes }: Receiving,
): Promise<number> {
  let bytes = 0
  const counted = async function* () {
    for await (const chunk of source) {
      bytes += chunk.length
      if (bytes > bytesMax) throw tooLarge()
      onBytes?.(bytes)
      yield chunk
    }
  }
  // Open before anything can fail: the file must not come after its removal.
  await using handle = await fs.open(file, 'wx', FILE_MODE)
  await pipeline(counted, handle.createWriteStream(), signal === undefined ? {} : { signal })
  return bytes
}
