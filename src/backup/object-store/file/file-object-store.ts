import { randomUUID } from 'node:crypto'
import { constants } from 'node:fs'
import { type FileHandle, lstat, open, stat, unlink } from 'node:fs/promises'
import { dirname, join, resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import { CLOCK, type Clock, systemClock } from '../../../base/clock.ts'
import { checkPath } from '../../../base/files/path-argument.ts'
import {
  checkOptions,
  definedOnly,
  maybe,
  required,
  type Shape,
  type Some,
  some,
} from '../../../base/options/option-shapes.ts'
import { CellError } from '../../../errors.ts'
import { CallDeadline, PATIENCE, type Patience } from '../call-deadline.ts'
import { checkKeyPrefix, checkObjectKey, isObjectKey, RESERVED_FOLDER } from '../object-key-rules.ts'
import {
  type ByteRange,
  type CallOptions,
  checkRange,
  type GetOptions,
  type ListOptions,
  type ObjectBody,
  type ObjectContent,
  type ObjectEntry,
  type ObjectStore,
  resolveRange,
  type SweepOptions,
  type TransferOptions,
} from '../object-store.ts'
import { createFile } from './create-only-file.ts'
import { errnoOf, filesInKeyOrder, folderFailure, isAbsence, pruneFolders } from './folder-tree.ts'

/** Settings of a {@link FileObjectStore}. */
export interface FileObjectStoreOptions {
  /** The folder, absolute or relative to the current directory. The first put makes it and its parents. */
  root: string
  /** Default: the system's clock. Tests inject another one. */
  clock?: Clock | undefined
  /** How long calls may take. Default `deadlineMs` 60,000 ms, `slowestBytesPerSecond` 1,048,576 (1 MiB/s). */
  patience?: Some<Patience> | undefined
}

const DEFAULT_PATIENCE: Patience = { deadlineMs: 60_000, slowestBytesPerSecond: 1024 * 1024 }
/** How much longer a put may take to clean up, after its deadline or its caller ended it. */
const CLEAN_UP_MS = 10_000
const READ_BYTES = 1024 * 1024
/** Entries that a listing looks up before it delivers them. */
const PAGE_ENTRIES = 500

const FOLDER: Shape<FileObjectStoreOptions> = {
  root: required(),
  clock: maybe(CLOCK),
  patience: maybe(some(PATIENCE)),
}

/**
 * An object store in a folder: an object's key is its path. If possible, an object is a hard link to a finished file, so
 * that a spooled backup is not copied. S3 can hold both `a` and `a/b`; a folder cannot.
 */
export class FileObjectStore implements ObjectStore {
  readonly url: string
  readonly #root: string
  readonly #uploads: string
  readonly #clock: Clock
  readonly #patience: Patience
  readonly #closed = new AbortController()

  /** @throws `invalid_setting` for an option that is not known, and without a root */
  constructor(options: FileObjectStoreOptions) {
    const code = 'invalid_setting'
    checkOptions(options, FOLDER, { code })
    const { root, clock = systemClock, patience = {} } = options
    checkPath(root, { field: 'root', code })
    this.#root = resolve(root)
    this.#uploads = join(this.#root, RESERVED_FOLDER, 'uploads')
    this.#clock = clock
    this.#patience = { ...DEFAULT_PATIENCE, ...definedOnly(patience) }
    this.url = pathToFileURL(this.#root).href
  }

  async put(key: string, body: ObjectBody, { signal, onProgress }: TransferOptions = {}): Promise<void> {
    checkObjectKey(key)
    // A put that its deadline or its caller ended still cleans up. This later limit is for a file system that hangs.
    const deadlineMs = this.#patience.deadlineMs + CLEAN_UP_MS
    using limit = new CallDeadline(this.#clock, { ...this.#patience, deadlineMs })
    using call = this.#call(signal)
    limit.allow(body.size)
    call.allow(body.size)
    const file = {
      root: this.#root,
      target: join(this.#root, key),
      scratchRoot: this.#uploads,
      unfinished: join(this.#uploads, unfinishedFile(key)),
      claim: join(this.#uploads, claimFile(key)),
    }
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
      // A body that nobody reads keeps its file open only until the deadline.
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

  async sweepUploads(
    prefix: string,
    olderThanMs: number,
    { signal, owns = () => true }: SweepOptions = {},
  ): Promise<number> {
    checkKeyPrefix(prefix)
    return this.#within(signal, async (call) => {
      let ended = 0
      for await (const file of filesInKeyOrder(this.#uploads, '')) {
        call.signal.throwIfAborted()
        const key = keyOfUnfinished(file.key)
        if (!key.startsWith(prefix) || !owns(key) || file.modifiedMs >= olderThanMs) continue
        const path = join(this.#uploads, file.key)
        await this.#ifThere(unlink(path))
        if (dirname(path) !== this.#uploads) await pruneFolders(dirname(path), this.#uploads)
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

  /** Runs `work` until it ends or the deadline comes. */
  async #within<T>(signal: AbortSignal | undefined, work: (call: CallDeadline) => Promise<T>): Promise<T> {
    using call = this.#call(signal)
    try {
      call.signal.throwIfAborted()
      return await call.race(work(call))
    } catch (error) {
      throw folderFailure(error)
    }
  }

  /** The object's file, or undefined if there is none. It never follows a link and never waits for a pipe's writer. */
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

  /** The result of `work`, or undefined if its path names nothing. A root that is not a folder is an error instead. */
  async #ifThere<T>(work: Promise<T>): Promise<T | undefined> {
    try {
      return await work
    } catch (error) {
      if (!isAbsence(error)) throw error
      if (errnoOf(error) === 'ENOTDIR') await this.#checkRoot()
      return undefined
    }
  }

  /** @throws if the root or one of its parents is a file or cannot be read. A missing root is an empty store. */
  async #checkRoot(): Promise<void> {
    await stat(`${this.#root}/`).catch((error: unknown) => {
      if (errnoOf(error) !== 'ENOENT') throw error
    })
  }

  /** Tells a root that is not a folder from a key that continues another key. */
  async #putFailure(error: unknown): Promise<CellError> {
    if (errnoOf(error) !== 'ENOTDIR') return folderFailure(error)
    try {
      await this.#checkRoot()
    } catch (rootError) {
      return folderFailure(rootError)
    }
    const message = 'A folder cannot hold this key: it continues the key of another object.'
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
 * Reads part of a file and checks its length. It reads the next bytes while the caller uses the current ones. It closes
 * the file at the end, and when the call's time is over.
 */
async function* readPart(
  handle: FileHandle,
  { offset, length }: ByteRange,
  call: CallDeadline,
  reusesMemory: boolean,
) {
  /** The chunk before the current one: the reader asked for more, so its memory is free. */
  let spare: Buffer | undefined
  /** All that are used again and again. */
  const buffers: Buffer<ArrayBuffer>[] = []
  const allocate = (bytes: number) => {
    const buffer = Buffer.allocUnsafeSlow(bytes)
    if (reusesMemory) buffers.push(buffer)
    return buffer
  }
  const readAt = (position: number) => {
    const bytes = Math.min(READ_BYTES, length - position)
    const reading = handle.read(spare ?? allocate(bytes), 0, bytes, offset + position)
    // A reader that stops early does not wait for it.
    reading.catch(() => {})
    return reading
  }
  try {
    let reading = readAt(0)
    for (let position = 0; position < length; ) {
      const { bytesRead, buffer } = await call.race(reading)
      if (bytesRead === 0)
        throw new CellError('object_store_error', 'The file of the object became shorter while it was read.')
      position += bytesRead
      if (position < length) reading = readAt(position)
      yield buffer.subarray(0, bytesRead)
      if (reusesMemory) spare = buffer
    }
    // The reader has asked for more, so it needs none of them. Left to the collector, they have it scan the heap for each few.
    for (const { buffer } of buffers) buffer.transfer(0)
  } catch (error) {
    throw folderFailure(error)
  } finally {
    call[Symbol.dispose]()
    await handle.close()
  }
}

/** Bytes of a file's name. */
const NAME_BYTES_MAX = 255
/** A key without slashes, and an id. */
const FLAT_NAME = /^([^/]+)\.[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/

/**
 * Where the next unfinished file of an object is written, relative to the folder of all of them. Its key is in its name. If that is too
 * long, it is in a folder that is named for the key; each of its folders costs as much as the file.
 */
function unfinishedFile(key: string): string {
  const id = randomUUID()
  const name = `${encodeURIComponent(key)}.${id}`
  return name.length <= NAME_BYTES_MAX ? name : join(key, id)
}

/** A file that keeps other writers of the key out, relative to the same folder. */
function claimFile(key: string): string {
  return join(key, 'claim')
}

/** The key of a file below that folder. */
function keyOfUnfinished(file: string): string {
  const flat = FLAT_NAME.exec(file)
  try {
    return flat === null ? dirname(file) : decodeURIComponent(flat[1] as string)
  } catch {
    // It is not one of ours.
    return file
  }
}
