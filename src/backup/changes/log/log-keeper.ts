import fs from 'node:fs'
import path from 'node:path'
import { exists, fsyncDirectory, makeDirectory } from '../../../base/files/durable-files.ts'
import type { CellPaths } from '../../../base/files/store-paths.ts'
import type { CellDatabase } from '../../../engine/cell-database.ts'
import { walBytes } from '../../../engine/wal/wal-file.ts'
import { isOutgrown } from '../backup-chain.ts'
import type { BackupProgress } from '../backup-progress.ts'
import { type BaseInProgress, boundLogs } from '../base-in-progress.ts'
import { type FileFingerprint, fingerprintOf, sameFingerprint } from '../file-fingerprint.ts'
import type { CellHistory } from './cell-history.ts'
import type { KeptLogs, LiveLog } from './kept-logs.ts'
import type { Segment } from './segments.ts'

interface LogKeeperParts {
  progress: BackupProgress
  paths: CellPaths
  logs: KeptLogs
  history: CellHistory
  origin: Origin
  dropChain(): void
  save(): void
}

/**
 * Keeps a cell's write-ahead log as a segment before a checkpoint overwrites it, for the chain, a base in progress or the history;
 * and proves that nobody else has written the database file. Where the proof fails, all three end.
 */
export class LogKeeper {
  readonly #parts: LogKeeperParts
  /** Set from the keeping of a log to the end of its checkpoint. Shows whether another program committed meanwhile. */
  #dataVersion: unknown

  constructor(parts: LogKeeperParts) {
    this.#parts = parts
  }

  /** If the log can't be kept, on a full disk for example, the checkpoint runs and the chain ends. */
  beforeCheckpoint(database: CellDatabase): void {
    const { history, paths } = this.#parts
    this.#dataVersion = undefined
    try {
      const now = fingerprintOf(paths.database)
      if (now === undefined || !this.#isUntouched(now)) {
        history.kept()
        return
      }
      this.#keepOrigin(database, now)
      // The frames are counted after the version was read: a commit in between shows in both.
      const dataVersion = dataVersionOf(database)
      const { frames } = database.checkpoints.state()
      if (this.#keep(frames, now.size)) this.#dataVersion = dataVersion
      history.kept()
      this.#endOutgrown(now.size)
      this.#parts.save()
    } catch {
      this.#breakAll('log not kept')
    }
  }

  afterCheckpoint(database: CellDatabase): void {
    const { progress, paths, history, save } = this.#parts
    const dataVersion = this.#dataVersion
    this.#dataVersion = undefined
    // No log was kept for this checkpoint, so it must not approve the file.
    if (dataVersion === undefined) return
    if (dataVersion !== dataVersionOf(database)) {
      // Another program committed after the log was kept. The checkpoint may have moved its change into the file.
      this.#breakAll('foreign write')
      return
    }
    const now = fingerprintOf(paths.database)
    if (now === undefined) return
    const { chain, base } = progress
    if (base !== null) base.database = now
    if (chain !== null) chain.database = now
    history.checkpointed(now)
    save()
  }

  /** The first checkpoint of a new cell is about to change the file with which its history begins. */
  #keepOrigin(database: CellDatabase, now: FileFingerprint): void {
    const { history, origin } = this.#parts
    const begun = history.ofNew?.origin
    if (begun === undefined || !sameFingerprint(now, begun) || origin.exists()) return
    if (!origin.keep(database.checkpoints.readDescriptor(), now.size)) history.end()
  }

  /** @returns false if nothing needs the log */
  #keep(frames: number, databaseBytes: number): boolean {
    const { progress, paths, logs, history } = this.#parts
    const kept = logs.list()
    const live = logs.live(paths.wal, kept)
    this.#dropOutgrownChain(live, frames, kept, databaseBytes)
    if (!this.#needsSegments) return false
    const { chain, base } = progress
    // The last frame stays: by it a log is known that grows.
    const isForHistory = chain === null && base === null
    const after = isForHistory ? Math.min(history.shippedOf(live.sequence), frames - 1) : 0
    logs.keep(paths.wal, frames, after)
    if (chain !== null) chain.newest = logs.newest
    if (base !== null) base.newest = logs.newest
    return true
  }

  get #needsSegments(): boolean {
    const { chain, base, history } = this.#parts.progress
    return chain !== null || history !== null || (base !== null && base.broken === null)
  }

  /** If another program wrote the file, it may hold changes that are in no segment. */
  #isUntouched(now: FileFingerprint): boolean {
    const { progress, history, dropChain } = this.#parts
    history.check(now)
    const { chain, base } = progress
    if (base !== null && !sameFingerprint(now, base.database)) base.broken ??= 'foreign write'
    if (chain !== null && !sameFingerprint(now, chain.database)) dropChain()
    return this.#needsSegments
  }

  /** Logs that are larger than the whole database are not worth their disk space: the one that is to be kept counts already. */
  #dropOutgrownChain(live: LiveLog, frames: number, kept: readonly Segment[], databaseBytes: number): void {
    const { chain } = this.#parts.progress
    if (chain === null) return
    const others = kept.filter(({ sequence }) => sequence > chain.through && sequence !== live.sequence)
    const own = { size: walBytes(frames, live.pageSize) }
    if (isOutgrown([...others, own], chain.walBytes, databaseBytes)) this.#parts.dropChain()
  }

  #endOutgrown(databaseBytes: number): void {
    const { progress, logs, history } = this.#parts
    const segments = logs.list()
    if (progress.base !== null) boundLogs(progress.base, segments, databaseBytes)
    history.bound(segments, databaseBytes)
  }

  #breakAll(reason: NonNullable<BaseInProgress['broken']>): void {
    const { progress, history, dropChain } = this.#parts
    if (progress.base !== null) progress.base.broken ??= reason
    history.end()
    dropChain()
  }
}

/** A larger database of a new cell, as that of an import, is not worth a copy: its history then begins with its first version. */
const BYTES_MAX = 1_048_576
const NAME = 'origin.db'

/** The database file of a cell as it was made, kept beside its logs until the first version has it. */
export class Origin {
  readonly path: string
  /** It is not there, for sure: this process alone makes it. */
  #isAbsent = false

  /** @param directory of the cell's kept logs */
  constructor(directory: string) {
    this.path = path.join(directory, NAME)
  }

  exists(): boolean {
    return !this.#isAbsent && exists(this.path)
  }

  /**
   * @param descriptor of the open database: opening its file once more would drop SQLite's locks (invariant 4)
   * @returns false if it is too large
   */
  keep(descriptor: number, size: number): boolean {
    if (size > BYTES_MAX) return false
    const bytes = Buffer.alloc(size)
    if (fs.readSync(descriptor, bytes, 0, size, 0) < size) return false
    const directory = path.dirname(this.path)
    makeDirectory(directory)
    const unfinished = `${this.path}.incoming`
    fs.writeFileSync(unfinished, bytes, { flush: true })
    fs.renameSync(unfinished, this.path)
    fsyncDirectory(directory)
    this.#isAbsent = false
    return true
  }

  remove(): void {
    if (this.#isAbsent) return
    fs.rmSync(this.path, { force: true })
    this.#isAbsent = true
  }
}

/** Another value than before if another program has committed to the file meanwhile; our own commits don't count. */
function dataVersionOf(database: CellDatabase): unknown {
  return database.prepare('PRAGMA data_version').pluck().get()
}
