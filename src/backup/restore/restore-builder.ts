import fs from 'node:fs/promises'
import path from 'node:path'
import type { Limits } from '../../base/limits.ts'
import { walBytes } from '../../engine/wal-file.ts'
import type { ArchiveSink, Received } from '../archive/archive-reader.ts'
import { corrupt } from '../archive/backup-errors.ts'
import {
  checkIdentity,
  DATABASE_MEMBER,
  type Expected,
  MANIFEST_MEMBER,
  type Manifest,
} from '../archive/manifest.ts'
import type { JoinedWal } from '../shipping/cell-pieces.ts'
import { checkDeclared, checkRoom, checkSize, checkWal } from './restore-limits.ts'
import { writeMember } from './restore-member.ts'
import { type RestoreTaskRunner, RestoreTasks } from './restore-tasks.ts'
import type { RestoreThread } from './restore-thread.ts'
import { OWN_THREAD_BYTES, type RestoreThreads } from './restore-threads.ts'
import { type ReadPiece, writeWal } from './shipped-wal.ts'

/** Whose backup it has to be, and how large it may be. */
export interface Acceptable extends Expected {
  limits: Limits
  /** Bytes that the restore must leave free on the disk. Undefined: it may fill the disk. */
  spareBytes?: number | undefined
}

/** Applies the archives of a chain, one after the other, to the database under restore. */
export class RestoreBuilder {
  readonly #file: string
  readonly #versions: readonly string[]
  readonly #expected: Acceptable
  readonly #threads: RestoreThreads
  #tasks: RestoreTaskRunner = new RestoreTasks()
  #thread: RestoreThread | undefined
  /** Archives started so far. */
  #started = 0
  #current: Manifest | undefined
  /** Members received of the current archive, in order. */
  #members: string[] = []

  constructor(file: string, versions: readonly string[], expected: Acceptable, threads: RestoreThreads) {
    this.#file = file
    this.#versions = versions
    this.#expected = expected
    this.#threads = threads
  }

  /** Receives the next archive. */
  sinkFor(version: string): ArchiveSink {
    return {
      manifest: (manifest) => this.#begin(manifest, version),
      member: (name, size, bytes) => this.#member(name, size, bytes),
    }
  }

  /** Call after each archive. @throws `backup_corrupt` if a member of the manifest is missing */
  endArchive(): void {
    const [missing] = this.#expectedMembers().slice(this.#members.length)
    if (missing !== undefined) throw corrupt(missing, 'it is missing')
  }

  /** Applies a log that was shipped after the last archive. */
  async applyWal({ frames, pageSize, pieces }: JoinedWal, read: ReadPiece): Promise<void> {
    const size = walBytes(frames, pageSize)
    checkWal(size, this.#expected.limits)
    const parts = await writeWal(`${this.#file}-wal`, pieces, read)
    const member = parts.at(-1)?.member ?? ''
    await this.#tasks.run({ kind: 'apply log', file: this.#file, member, frames, parts })
    checkSize((await fs.stat(this.#file)).size, this.#expected.limits)
  }

  /** @returns the database's size in bytes; the file is fsynced */
  async prove(): Promise<number> {
    const handle = await fs.open(this.#file, 'r+')
    try {
      // The fsync runs while SQLite checks.
      const outcomes = await Promise.allSettled([
        this.#tasks.run({ kind: 'prove', file: this.#file, member: DATABASE_MEMBER }),
        handle.sync(),
      ])
      for (const outcome of outcomes) if (outcome.status === 'rejected') throw outcome.reason
      return (await handle.stat()).size
    } finally {
      await handle.close()
    }
  }

  /** Call after {@link prove}: the file is no longer used, and the thread is free for the next restore. */
  async releaseThread(): Promise<void> {
    if (this.#thread !== undefined) await this.#threads.release(this.#thread)
  }

  /** After a failure: waits for the running task and closes the files. */
  async close(): Promise<void> {
    await this.#tasks.close()
  }

  #begin(manifest: Manifest, version: string): void {
    checkIdentity(manifest, version, this.#expected)
    checkDeclared(manifest, this.#expected.limits)
    // The manifest's chain must be the versions applied so far: this finds swapped archives.
    const before = this.#versions.slice(0, this.#started)
    if (manifest.chain.length !== before.length || manifest.chain.some((link, i) => link !== before[i])) {
      throw corrupt(MANIFEST_MEMBER, 'it does not continue the backups before it')
    }
    if ((manifest.database === null) === (this.#started === 0)) {
      throw corrupt(
        MANIFEST_MEMBER,
        'the first backup of a chain must hold a database, and the others must not',
      )
    }
    const { spareBytes } = this.#expected
    if (spareBytes !== undefined) checkRoom(manifest, path.dirname(this.#file), spareBytes)
    this.#started++
    this.#current = manifest
    this.#members = []
    const { database, wals } = manifest
    this.takeThreadFor(wals.reduce((sum, wal) => sum + wal.size, database?.size ?? 0))
  }

  /** @param size of what is to be applied */
  takeThreadFor(size: number): void {
    if (size < OWN_THREAD_BYTES || this.#thread !== undefined) return
    this.#thread = this.#threads.take()
    this.#tasks = this.#thread
  }

  async #member(name: string, size: number, bytes: AsyncIterable<Buffer>): Promise<Received> {
    const { database, wals } = this.#current as Manifest
    // Logs can be applied in one order only.
    if (name !== this.#expectedMembers()[this.#members.length]) {
      throw corrupt(name, 'the manifest names another member at this position')
    }
    this.#members.push(name)
    const wal = wals.find((each) => each.name === name)
    if (size !== (wal ?? database)?.size) throw corrupt(name, 'its size differs from the manifest')
    const file = wal === undefined ? this.#file : `${this.#file}-wal`
    const received = await writeMember(file, bytes, this.#tasks)
    if (wal !== undefined) {
      await this.#tasks.run({ kind: 'apply log', file: this.#file, member: name, frames: wal.frames })
      // A log's last frame sets the size of the whole file.
      checkSize((await fs.stat(this.#file)).size, this.#expected.limits)
    }
    return received
  }

  #expectedMembers(): string[] {
    const { database, wals } = this.#current as Manifest
    return [...(database === null ? [] : [database.name]), ...wals.map(({ name }) => name)]
  }
}
