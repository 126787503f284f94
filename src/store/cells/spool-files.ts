import { randomUUID } from 'node:crypto'
import fs from 'node:fs/promises'
import path from 'node:path'
import { pipeline } from 'node:stream/promises'
import { localFailure } from '../../backup/archive/backup-errors.ts'
import { isBytes, isError } from '../../base/any-realm.ts'
import { unlessAborted } from '../../base/async/unless-aborted.ts'
import { DIRECTORY_MODE, FILE_MODE } from '../../base/files/durable-files.ts'
import { freeBytes } from '../../base/machine/free-bytes.ts'
import { CellError } from '../../errors.ts'

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
interface Receiving {
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

/** What stays free on the disk, for everybody else. */
const SPARE_BYTES = 64 * 1_048_576
/** A file whose size is not known takes its room in such steps: each asks the file system. */
const STEP_BYTES = 1_048_576

/** The room of one file. */
export interface SpoolRoom {
  /** It has so many bytes now. Takes more room if that is needed. @throws `disk_full` */
  wrote(bytes: number): void
  /** It grows no more, or it is gone. */
  release(): void
}

/**
 * The folder for files on their way into the store and out of it. Each takes its room on the disk before it is written: what
 * those under way have yet to write counts as written.
 */
export class Spool {
  readonly folder: string
  readonly #free: (folder: string) => number
  /** Bytes that files may still write. */
  #promised = 0

  /** @param free how many bytes a disk has left */
  constructor(folder: string, free: (folder: string) => number = freeBytes) {
    this.folder = folder
    this.#free = free
  }

  /**
   * Takes room for a file. The folder exists.
   *
   * @param bytes that it will have; 0 if that is not known
   * @throws `disk_full` if that would not leave room for others
   */
  take(bytes: number): SpoolRoom {
    this.#promise(bytes)
    let size = bytes
    let written = 0
    return {
      wrote: (now) => {
        for (; now > size; size += STEP_BYTES) this.#promise(STEP_BYTES)
        this.#promised -= now - written
        written = now
      },
      release: () => {
        this.#promised -= size - written
        size = written
      },
    }
  }

  #promise(bytes: number): void {
    const free = this.#free(this.folder)
    if (bytes > 0 && this.#promised + bytes + SPARE_BYTES > free) {
      throw new CellError(
        'disk_full',
        `The file takes ${bytes} bytes more. The disk has ${free}, of which ${this.#promised} are promised to other files under way, and ${SPARE_BYTES} stay free.`,
      )
    }
    this.#promised += bytes
  }
}

/** Which of a call's arguments names the file. */
type PathField = 'source' | 'target'

/** The path is wrong, and the machine is not. */
const OF_THE_PATH = new Set([
  'ENOENT',
  'EISDIR',
  'ENOTDIR',
  'EACCES',
  'EPERM',
  'EROFS',
  'ELOOP',
  'ENAMETOOLONG',
  'ENXIO',
])

/** What the file system said of a file that a caller has named, as a `CellError` if it is about the path or the room. */
export function callerFileError(error: unknown, field: PathField): unknown {
  if (!isError(error) || !('syscall' in error) || !('code' in error)) return error
  const code = String(error.code)
  if (OF_THE_PATH.has(code))
    return new CellError('invalid_request', `The file that ${field} names can't be used: ${code}.`, {
      field,
      cause: error,
    })
  if (localFailure(error) !== 'disk_full') return error
  return new CellError('disk_full', 'The disk is full; nothing of the file was kept.', { cause: error })
}
