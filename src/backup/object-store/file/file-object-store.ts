import { constants } from 'node:fs'
import { type FileHandle, lstat, open, stat, unlink } from 'node:fs/promises'
import { dirname, join, resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import { type Clock, systemClock } from '../../../base/clock.ts'
import { CellError } from '../../../errors.ts'
import { type ByteRange, checkRange, resolveRange } from '../byte-range.ts'
import { CallDeadline, type Patience } from '../call-deadline.ts'
import { checkKeyPrefix, checkObjectKey, isObjectKey, RESERVED_FOLDER } from '../object-key-rules.ts'
import type {
  CallOptions,
  GetOptions,
  ListOptions,
  ObjectBody,
  ObjectContent,
  ObjectEntry,
  ObjectStore,
  TransferOptions,
} from '../object-store.ts'
import { createFile } from './create-only-file.ts'
import { errnoOf, folderFailure } from './folder-failure.ts'
import { filesInKeyOrder, isAbsence, pruneFolders } from './folder-tree.ts'

export interface FileObjectStoreOptions {
  /** The folder; made, with those above it, by the first put. */
  root: string
  clock?: Clock | undefined
  /** Default 60 s for a call, and 1 MiB/s for bytes. */
  patience?: Partial<Patience> | undefined
}

const PATIENCE: Patience = { deadlineMs: 60_000, slowestBytesPerSecond: 1024 * 1024 }
/** How much longer a put may take to remove what it began, after its deadline or its caller ended it. */
const CLEAN_UP_MS = 10_000
const READ_BYTES = 1024 * 1024
/** Entries that a listing looks up before it hands them out. */
const PAGE_ENTRIES = 500

/**
 * An object store in a folder: an object's key is its path. Objects are hard links to finished files where possible, so
 * that storing a spooled backup costs no second copy. Where S3 can hold both `a` and `a/b`, a folder can't.
 */
export class FileObjectStore implements ObjectStore {
  readonly url: string
  readonly #root: string
  readonly #uploads: string
  readonly #clock: Clock
  readonly #patience: Patience
  readonly #closed = new AbortController()

  constructor({ root, clock = systemClock, patience = {} }: FileObjectStoreOptions) {
    this.#root = resolve(root)
    this.#uploads = join(this.#root, RESERVED_FOLDER, 'uploads')
    this.#clock = clock
    this.#patience = { ...PATIENCE, ...patience }
    this.url = pathToFileURL(this.#root).href
  }

  async put(key: string, body: ObjectBody, { signal, onProgress }: TransferOptions = {}): Promise<void> {
    checkObjectKey(key)
    // Ended by its own deadline or by its caller, a put still removes what it began; only a hung file system ends that.
    const deadlineMs = this.#patience.deadlineMs + CLEAN_UP_MS
    using limit = new CallDeadline(this.#clock, { ...this.#patience, deadlineMs })
    using call = this.#call(signal)
    limit.allow(body.size)
    call.allow(body.size)
    const scratch = join(this.#uploads, key)
    const file = { root: this.#root, target: join(this.#root, key), scratch, scratchRoot: this.#uploads }
    try {
      call.signal.throwIfAborted()
      await limit.race(createFile(file, body, call, onProgress))
    } catch (error) {
      throw await this.#putFailure(error)
    }
  }

  async get(
    key: string,
    { signal, range, reusesMemory = false }: GetOptions = {},
  ): Promise<ObjectContent | undefined> {
    checkObjectKey(key)
    checkRange(range)
    const call = this.#call(signal)
    const opening = this.#open(key)
    try {
      const handle = await call.race(opening)
      if (handle === undefined) {
        call[Symbol.dispose]()
        return undefined
      }
      const { size } = await call.race(handle.stat())
      const part = resolveRange(range, size)
      call.allow(part.length)
      // A body that nobody reads keeps its file open until the deadline, no longer.
      call.signal.addEventListener('abort', () => void handle.close().catch(() => {}))
      return { size: part.length, body: readPart(handle, part, call, reusesMemory) }
    } catch (error) {
      call[Symbol.dispose]()
      void opening.then((handle) => handle?.close()).catch(() => {})
      throw folderFailure(error)
    }
  }

  async head(key: string, { signal }: CallOptions = {}): Promise<{ size: number } | undefined> {
    checkObjectKey(key)
    return this.#within(signal, async () => {
      const found = await this.#ifThere(lstat(join(this.#root, key)))
      return found?.isFile() === true ? { size: found.size } : undefined
    })
  }

  async *list(prefix: string, { after, signal }: ListOptions = {}): AsyncGenerator<ObjectEntry> {
    checkKeyPrefix(prefix)
    const files = filesInKeyOrder(this.#root, prefix, after)
    for (;;) {
      const page = await this.#within(signal, async () => {
        await this.#checkRoot()
        return nextEntries(files)
      })
      yield* page
      if (page.length < PAGE_ENTRIES) return
    }
  }

  async delete(key: string, { signal }: CallOptions = {}): Promise<void> {
    checkObjectKey(key)
    const target = join(this.#root, key)
    await this.#within(signal, async () => {
      const found = await this.#ifThere(lstat(target))
      if (found?.isFile() !== true) return
      await this.#ifThere(unlink(target))
      await pruneFolders(dirname(target), this.#root)
    })
  }

  async sweepUploads(prefix: string, olderThanMs: number, { signal }: CallOptions = {}): Promise<number> {
    checkKeyPrefix(prefix)
    return this.#within(signal, async (call) => {
      let ended = 0
      for await (const file of filesInKeyOrder(this.#uploads, prefix)) {
        call.signal.throwIfAborted()
        // A file being written lies in a folder named for its key.
        if (!dirname(file.key).startsWith(prefix) || file.modifiedMs >= olderThanMs) continue
        const path = join(this.#uploads, file.key)
        await this.#ifThere(unlink(path))
        await pruneFolders(dirname(path), this.#uploads)
        ended++
      }
      return ended
    })
  }

  async close(): Promise<void> {
    this.#closed.abort(new CellError('store_closed', 'The object store is closed.'))
  }

  #call(signal: AbortSignal | undefined): CallDeadline {
    return new CallDeadline(this.#clock, this.#patience, signal, this.#closed.signal)
  }

  /** Runs `work` to its end or the deadline's, whichever comes first. */
  async #within<T>(signal: AbortSignal | undefined, work: (call: CallDeadline) => Promise<T>): Promise<T> {
    using call = this.#call(signal)
    try {
      call.signal.throwIfAborted()
      return await call.race(work(call))
    } catch (error) {
      throw folderFailure(error)
    }
  }

  /** The object's file, or undefined if there is none. Never follows a link, never waits for a pipe's writer. */
  async #open(key: string): Promise<FileHandle | undefined> {
    const flags = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK
    const opening = open(join(this.#root, key), flags).catch((error: unknown) => {
      if (errnoOf(error) === 'ELOOP') return undefined
      throw error
    })
    const handle = await this.#ifThere(opening)
    if (handle === undefined || (await handle.stat()).isFile()) return handle
    await handle.close()
    return undefined
  }

  /** What `work` finds, or undefined if a path of it names nothing. A root that is no folder is another matter. */
  async #ifThere<T>(work: Promise<T>): Promise<T | undefined> {
    try {
      return await work
    } catch (error) {
      if (!isAbsence(error)) throw error
      if (errnoOf(error) === 'ENOTDIR') await this.#checkRoot()
      return undefined
    }
  }

  /** @throws where the root, or what is above it, is a file or can't be looked at. A missing root is an empty one. */
  async #checkRoot(): Promise<void> {
    await stat(`${this.#root}/`).catch((error: unknown) => {
      if (errnoOf(error) !== 'ENOENT') throw error
    })
  }

  /** Tells a root that is no folder from a key that goes on where another one ended. */
  async #putFailure(error: unknown): Promise<CellError> {
    if (errnoOf(error) !== 'ENOTDIR') return folderFailure(error)
    try {
      await this.#checkRoot()
    } catch (rootError) {
      return folderFailure(rootError)
    }
    const message = 'A folder can not hold an object whose key continues that of another.'
    return new CellError('object_store_error', message, { cause: error })
  }
}

async function nextEntries(files: AsyncGenerator<{ key: string; size: number }>): Promise<ObjectEntry[]> {
  const page: ObjectEntry[] = []
  while (page.length < PAGE_ENTRIES) {
    const next = await files.next()
    if (next.done === true) break
    const { key, size } = next.value
    if (isObjectKey(key)) page.push({ key, size })
  }
  return page
}

/**
 * A part of a file, checked against its length; the next bytes are read while these are worked on. Closes the file at its
 * end, and when the call's time is over.
 */
async function* readPart(
  handle: FileHandle,
  { offset, length }: ByteRange,
  call: CallDeadline,
  reusesMemory: boolean,
) {
  /** What was handed out before the last: whoever asked for more no longer has it. */
  let spare: Buffer | undefined
  const readAt = (position: number) => {
    const bytes = Math.min(READ_BYTES, length - position)
    const reading = handle.read(spare ?? Buffer.allocUnsafe(bytes), 0, bytes, offset + position)
    // Whoever stops reading does not wait for it.
    reading.catch(() => {})
    return reading
  }
  try {
    let reading = readAt(0)
    for (let position = 0; position < length; ) {
      const { bytesRead, buffer } = await call.race(reading)
      if (bytesRead === 0) throw new CellError('object_store_error', 'The object ended before its length.')
      position += bytesRead
      if (position < length) reading = readAt(position)
      yield buffer.subarray(0, bytesRead)
      if (reusesMemory) spare = buffer
    }
  } catch (error) {
    throw folderFailure(error)
  } finally {
    call[Symbol.dispose]()
    await handle.close()
  }
}
