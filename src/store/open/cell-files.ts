import { randomUUID } from 'node:crypto'
import fs from 'node:fs'
import path from 'node:path'
import { localFailure } from '../../backup/archive/backup-errors.ts'
import {
  DIRECTORY_MODE,
  exists,
  fsyncDirectory,
  fsyncDirectoryAside,
  makeDirectory,
  makeFileAside,
  writeNewFile,
} from '../../base/files/durable-files.ts'
import type { StorePaths } from '../../base/files/store-paths.ts'
import { ReservedSchema } from '../../engine/reserved-schema.ts'
import { CellError } from '../../errors.ts'
import { addVersions, KV_SCHEMA } from '../../kv/queries.ts'
import { randomStart } from '../../kv/statements.ts'

/** The schema of a cell. */
export const CELL_SCHEMA = new ReservedSchema(KV_SCHEMA, [() => addVersions(randomStart())])

/** The local files of cells. */
export class CellFiles {
  readonly #paths: StorePaths
  /** Folders of cells' folders that this process has made durable, with those that they are in. They are never removed. */
  readonly #durable = new Set<string>()

  constructor(paths: StorePaths) {
    this.#paths = paths
  }

  /** Creates the file of a new cell, durably. @throws `disk_full`; no file is left then */
  write(id: string): void {
    const { directory, database } = this.#paths.cell(id)
    try {
      makeDirectory(directory)
      writeNewFile(database, CELL_SCHEMA.image())
      fsyncDirectory(directory)
    } catch (error) {
      throw this.#notCreated(id, error)
    }
  }

  /** {@link write} in the thread pool. */
  async writeAside(id: string): Promise<void> {
    const { directory, database } = this.#paths.cell(id)
    try {
      const image = CELL_SCHEMA.image()
      await this.#makeFolder(directory)
      const write = await makeFileAside(database)
      await Promise.all([write(image), this.#syncFolder(directory)])
    } catch (error) {
      throw this.#notCreated(id, error)
    }
  }

  /**
   * Makes a new cell's file of what `build` writes, durably. Resolves with what that does.
   *
   * @param build writes and syncs a database at the path that it is given; it is in the cell's folder
   * @throws what `build` throws; `disk_full`. No file is left then
   */
  async adopt<T>(id: string, build: (target: string) => Promise<T>): Promise<T> {
    const { directory, database, restoreTarget } = this.#paths.cell(id)
    try {
      await this.#makeFolder(directory)
      const result = await build(restoreTarget)
      fs.renameSync(restoreTarget, database)
      await this.#syncFolder(directory)
      return result
    } catch (error) {
      throw this.#notCreated(id, error)
    }
  }

  async #makeFolder(folder: string): Promise<void> {
    const first = await fs.promises.mkdir(folder, { recursive: true, mode: DIRECTORY_MODE })
    // A folder that it is in was made, too.
    if (first !== folder) this.#durable.delete(path.dirname(folder))
  }

  /** Makes a cell's folder and what it has durable, and the folders that it is in. */
  async #syncFolder(folder: string): Promise<void> {
    const { root, cells } = this.#paths
    const parent = path.dirname(folder)
    // Those above, too, if they were there: another creation, or a process that has ended, can have made them, and not have synced them.
    const above = this.#durable.has(parent) ? [] : [cells, root]
    await Promise.all([folder, parent, ...above].map(fsyncDirectoryAside))
    this.#durable.add(parent)
  }

  #notCreated(id: string, error: unknown): unknown {
    this.remove(id)
    return orNoRoom(error)
  }

  /** Removes a cell's local files. The cell is closed, or was never opened. */
  remove(id: string): void {
    // If another program has just read the database, it can create files next to it during the removal.
    fs.rmSync(this.#paths.cell(id).directory, { recursive: true, force: true, maxRetries: 8, retryDelay: 1 })
  }

  /**
   * {@link remove} in two steps. When this returns, the files are out of the way of a restore that brings the cell back. What a crash
   * leaves, the next start removes from the spool.
   *
   * @returns removes them, in the thread pool
   */
  moveAside(id: string): () => Promise<void> {
    const aside = path.join(this.#paths.spool, `removed-${randomUUID()}`)
    try {
      fs.renameSync(this.#paths.cell(id).directory, aside)
    } catch {
      this.remove(id)
      return async () => {}
    }
    return () => fs.promises.rm(aside, { recursive: true, force: true })
  }

  exists(id: string): boolean {
    return exists(this.#paths.cell(id).database)
  }

  /** Whether a write-ahead log is there: the cell is open, or its process has ended without closing it. */
  hasLog(id: string): boolean {
    return sizeOf(this.#paths.cell(id).wal) > 0
  }

  /** As {@link hasLog}, be it empty. SQLite removes the file only when the last connection of any program is closed properly. */
  hasLogFile(id: string): boolean {
    return exists(this.#paths.cell(id).wal)
  }

  /** Size of the database file; 0 if there is none. */
  databaseBytes(id: string): number {
    return sizeOf(this.#paths.cell(id).database)
  }

  /** Size of database and WAL. */
  sizeBytes(id: string): number {
    return this.storedBytes(id, 0)
  }

  /** Bytes of the write-ahead log; 0 if that is unknown. */
  logBytes(id: string): number {
    try {
      return sizeOf(this.#paths.cell(id).wal)
    } catch {
      return 0
    }
  }

  /** Size of the database, and of what its WAL has beyond `logBytes`. */
  storedBytes(id: string, logBytes: number): number {
    const { database, wal } = this.#paths.cell(id)
    return sizeOf(database) + Math.max(0, sizeOf(wal) - logBytes)
  }
}

/** 0 for a file that is absent. `stat` opens no file, so it drops no lock (invariant 4). */
function sizeOf(file: string): number {
  return fs.statSync(file, { throwIfNoEntry: false })?.size ?? 0
}

/** The error of a cell that could not be made: `disk_full` if the disk has no room for its bytes, or for one more file. */
export function orNoRoom(error: unknown): unknown {
  if (localFailure(error) !== 'disk_full') return error
  return new CellError('disk_full', 'The disk is full. The cell was not created.', { cause: error })
}
