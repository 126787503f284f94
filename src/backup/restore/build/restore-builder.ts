import fs from 'node:fs/promises'
import { FILE_MODE } from '../../../base/files/durable-files.ts'
import { writeAll } from '../../../base/files/write-all.ts'
import { walBytes } from '../../../engine/wal/wal-file.ts'
import { corrupt } from '../../archive/backup-errors.ts'
import { DATABASE_MEMBER } from '../../archive/manifest.ts'
import type { Refetch } from '../../archive/zstd/seekable-zstd.ts'
import type { JoinedWal, PieceOfWal } from '../../shipping/cell-pieces.ts'
import { type RestoreTaskRunner, SOUND, UNPACKED_BYTES } from '../threads/restore-task.ts'
import { RestoreTasks } from '../threads/restore-tasks.ts'
import type { RestoreThread } from '../threads/restore-thread.ts'
import { type CheckedFor, OWN_THREAD_BYTES, type RestoreThreads } from '../threads/restore-threads.ts'
import { ArchiveInChain } from './archive-in-chain.ts'
import type { WalPart } from './restore-database.ts'
import { type Acceptable, type ArchivePlace, checkSize, checkWal } from './restore-limits.ts'
import { writeMember } from './restore-member.ts'

/** Applies the archives of a chain, one after the other, to the database under restore. */
export class RestoreBuilder {
  readonly #file: string
  readonly #versions: readonly string[]
  readonly #expected: Acceptable
  readonly #threads: RestoreThreads
  readonly #whose: CheckedFor
  #tasks: RestoreTaskRunner = new RestoreTasks()
  #thread: RestoreThread | undefined
  /** Archives applied so far. */
  #applied = 0
  /** The database is as one of them has it, and SQLite's check found it sound before it was stored. */
  #isSound = false

  constructor(
    file: string,
    versions: readonly string[],
    expected: Acceptable,
    threads: RestoreThreads,
    whose: CheckedFor,
  ) {
    this.#file = file
    this.#versions = versions
    this.#expected = expected
    this.#threads = threads
    this.#whose = whose
  }

  /**
   * Applies the next archive.
   *
   * @param size of the object, in bytes
   * @throws `backup_corrupt`; what the archive's source throws
   */
  async applyArchive(archive: Refetch, size: number): Promise<void> {
    const place = {
      file: this.#file,
      version: this.#versions[this.#applied] as string,
      before: this.#versions.slice(0, this.#applied),
      expected: this.#expected,
    }
    const isUnpackedAtOnce = this.#applied === 0 && size >= UNPACKED_BYTES.min && size <= UNPACKED_BYTES.max
    this.#isSound = isUnpackedAtOnce
      ? await this.#unpack(archive, place)
      : await this.#stream(archive.from(0), archive, place)
    this.#applied++
  }

  /** The file holds what all archives have, and maybe some of the log. */
  goOn(): void {
    this.#applied = this.#versions.length
  }

  /** Applies a log that was shipped after the last archive. */
  async applyWal({ frames, pageSize, pieces }: JoinedWal, read: ReadPiece): Promise<void> {
    const size = walBytes(frames, pageSize)
    checkWal(size, this.#expected.limits)
    const parts = await writeWal(`${this.#file}-wal`, pieces, read)
    const member = parts.at(-1)?.member ?? ''
    this.#isSound = false
    await this.#tasks.run({ kind: 'apply log', file: this.#file, member, frames, parts })
    checkSize((await fs.stat(this.#file)).size, this.#expected.limits)
  }

  /** Call it once all is applied. @returns the database's size in bytes; the file is fsynced */
  async prove(): Promise<number> {
    const handle = await fs.open(this.#file, 'r+')
    try {
      const { size } = await handle.stat()
      // The fsync runs while SQLite checks.
      const outcomes = await Promise.allSettled([this.#check(size), handle.sync()])
      for (const outcome of outcomes) if (outcome.status === 'rejected') throw outcome.reason
      return size
    } finally {
      await handle.close()
    }
  }

  /** The very bytes that SQLite has found sound once need no second check. */
  async #check(size: number): Promise<void> {
    if (this.#isSound && this.#whose.checksAgain !== true) return
    const task = { kind: 'prove', file: this.#file, member: DATABASE_MEMBER } as const
    await this.#threads.check(task, size, this.#whose, this.#tasks)
  }

  /** Call after {@link prove}: the file is no longer used, and the thread is free for the next restore. */
  async releaseThread(): Promise<void> {
    if (this.#thread !== undefined) await this.#threads.release(this.#thread)
  }

  /** After a failure: waits for the running tasks and closes the files. */
  async close(): Promise<void> {
    await this.#tasks.close()
  }

  /** @param size of what is to be applied */
  takeThreadFor(size: number): void {
    if (size >= OWN_THREAD_BYTES) this.#takeThread()
  }

  #takeThread(): RestoreThread {
    this.#thread ??= this.#threads.take()
    this.#tasks = this.#thread
    return this.#thread
  }

  /** Reads the whole object, and leaves the rest to the thread. What it can't do is done as with any other archive. */
  async #unpack(archive: Refetch, place: ArchivePlace): Promise<boolean> {
    const thread = this.#takeThread()
    const received = await ReceivedArchive.receive(archive.from(0), thread.memory)
    const unpacked = received.isWhole ? await received.unpack(thread, place) : undefined
    return unpacked?.isSound ?? (await this.#stream(received.again(), archive, place))
  }

  async #stream(source: AsyncIterable<Uint8Array>, archive: Refetch, place: ArchivePlace): Promise<boolean> {
    const { readArchive } = await import('../../archive/archive-reader.ts')
    const tasksFor = (bytes: number) => {
      this.takeThreadFor(bytes)
      return this.#tasks
    }
    const applied = new ArchiveInChain(place, { tasksFor, write: writeMember })
    const isSound = await readArchive(source, applied, archive)
    return applied.end() && isSound
  }
}

/** The first bytes of a piece, in chunks. */
type ReadPiece = (piece: PieceOfWal, bytes: number) => AsyncIterable<Buffer>

/** Makes a write-ahead log of its pieces. @returns which object has which frames */
async function writeWal(file: string, pieces: readonly PieceOfWal[], read: ReadPiece): Promise<WalPart[]> {
  const handle = await fs.open(file, 'w', FILE_MODE)
  try {
    let at = 0
    for (const each of pieces) {
      const end = walBytes(each.to, each.piece.page_size)
      const begin = at
      for await (const chunk of read(each, end - begin)) {
        await writeAll(handle, chunk, at)
        at += chunk.length
      }
      if (at !== end) throw corrupt(each.ref.key, `its member ${each.piece.member} is too short`)
    }
    return pieces.map(({ ref, to }) => ({ to, member: ref.key }))
  } finally {
    await handle.close()
  }
}

/** Bytes of a piece up to its last frame that counts. */
export function pieceBytes({ piece, to }: PieceOfWal): number {
  const begin = piece.from === 0 ? 0 : walBytes(piece.from, piece.page_size)
  return walBytes(to, piece.page_size) - begin
}

/**
 * An archive in memory that is shared with a thread. Block by block, each step costs a message between threads and memory that
 * the collector counts: for 100 cells of 6 MB that was more than half of the archiver's processor time, measured.
 */
class ReceivedArchive {
  readonly #bytes: Buffer
  readonly #failure: { error: unknown } | undefined

  private constructor(bytes: Buffer, failure: { error: unknown } | undefined) {
    this.#bytes = bytes
    this.#failure = failure
  }

  static async receive(source: AsyncIterable<Uint8Array>, memory: Buffer): Promise<ReceivedArchive> {
    let length = 0
    try {
      for await (const chunk of source) {
        if (length + chunk.length > memory.length) throw corrupt('archive', 'it is longer than it was')
        memory.set(chunk, length)
        length += chunk.length
      }
    } catch (error) {
      return new ReceivedArchive(memory.subarray(0, length), { error })
    }
    return new ReceivedArchive(memory.subarray(0, length), undefined)
  }

  /** All of it has come. */
  get isWhole(): boolean {
    return this.#failure === undefined
  }

  /** @returns undefined if it is not applied, for whatever reason: reading it {@link again} shows which */
  async unpack(thread: RestoreTaskRunner, place: ArchivePlace): Promise<{ isSound: boolean } | undefined> {
    try {
      const result = await thread.run({ kind: 'unpack', bytes: this.#bytes.length, place })
      return { isSound: result === SOUND }
    } catch {
      return undefined
    }
  }

  /** The bytes that have come, and then what ended them early. */
  async *again(): AsyncGenerator<Uint8Array> {
    yield this.#bytes
    if (this.#failure !== undefined) throw this.#failure.error
  }
}
