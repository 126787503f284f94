import { randomUUID } from 'node:crypto'
import fs from 'node:fs/promises'
import path from 'node:path'
import { pipeline } from 'node:stream/promises'
import { isBytes } from '../../base/any-realm.ts'
import { unlessAborted } from '../../base/async/unless-aborted.ts'
import { DIRECTORY_MODE, FILE_MODE } from '../../base/files/durable-files.ts'
import { CellError } from '../../errors.ts'
import type { SpoolRoom } from './spool.ts'

/** A file on its way into the store or out of it. A start empties the spool. */
export async function newSpoolFile(spool: string, purpose: 'export' | 'import'): Promise<string> {
  await fs.mkdir(spool, { recursive: true, mode: DIRECTORY_MODE })
  return path.join(spool, `${purpose}-${randomUUID()}.db`)
}

/** Removes a file of the spool, and what SQLite made next to it. */
export async function removeSpoolFile(file: string): Promise<void> {
  for (const suffix of ['', '-journal', '-wal', '-shm']) await fs.rm(file + suffix, { force: true })
}

/** How a stream is written to the spool. */
export interface Receiving {
  /** Bytes that the file may have. */
  bytesMax: number
  /** What is thrown for more. */
  tooLarge(): CellError
  /** Of the file on the disk. */
  room: SpoolRoom
  signal?: AbortSignal | undefined
  /** Called with the bytes so far. */
  onBytes?: ((bytes: number) => void) | undefined
}

/** Writes a stream to a new file, no faster than the disk takes it. @returns its bytes */
export async function receiveFile(
  source: AsyncIterable<Uint8Array>,
  file: string,
  { bytesMax, tooLarge, room, signal, onBytes }: Receiving,
): Promise<number> {
  let bytes = 0
  const counted = async function* () {
    for await (const chunk of untilAborted(source, signal)) {
      // The length of another kind of array is not its bytes.
      if (!isBytes(chunk))
        throw new CellError('invalid_request', 'source must give Uint8Arrays.', { field: 'source' })
      bytes += chunk.length
      if (bytes > bytesMax) throw tooLarge()
      room.wrote(bytes)
      onBytes?.(bytes)
      yield chunk
    }
  }
  // Open before anything can fail: the file must not come after its removal.
  await using handle = await fs.open(file, 'wx', FILE_MODE)
  await pipeline(counted, handle.createWriteStream(), signal === undefined ? {} : { signal })
  return bytes
}

/** A source that gives nothing more would never see that nobody waits for it. It is told, and not waited for. */
async function* untilAborted<T>(
  source: AsyncIterable<T>,
  signal: AbortSignal | undefined,
): AsyncGenerator<T> {
  const chunks = source[Symbol.asyncIterator]()
  try {
    for (;;) {
      const { done, value } = await unlessAborted(chunks.next(), signal)
      if (done === true) return
      yield value
    }
  } finally {
    const ended = chunks.return?.().catch(() => {})
    if (signal?.aborted !== true) await ended
  }
}
