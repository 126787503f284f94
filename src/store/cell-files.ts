import fs from 'node:fs'
import { exists, fsyncDirectory, makeDirectory, writeNewFile } from '../base/durable-files.ts'
import type { StorePaths } from '../base/store-paths.ts'
import { ReservedSchema } from '../engine/reserved-schema.ts'
import { CellError } from '../errors.ts'
import { KV_SCHEMA } from '../kv/queries.ts'

/** What a cell's file begins with. */
export const CELL_SCHEMA = new ReservedSchema(KV_SCHEMA)

/** The cells' files on this machine. */
export class CellFiles {
  readonly #paths: StorePaths

  constructor(paths: StorePaths) {
    this.#paths = paths
  }

  /** Makes the file of a new cell, durably. @throws `disk_full`; nothing is left then */
  write(id: string): void {
    const { directory, database } = this.#paths.cell(id)
    try {
      makeDirectory(directory)
      writeNewFile(database, CELL_SCHEMA.image())
      fsyncDirectory(directory)
    } catch (error) {
      this.remove(id)
      if ((error as NodeJS.ErrnoException).code !== 'ENOSPC') throw error
      throw new CellError('disk_full', 'The disk is full; no cell was made.', { cause: error })
    }
  }

  /** Removes all that is here of a cell. It is closed, or was never opened. */
  remove(id: string): void {
    // Another program that has just looked at the database makes files beside it, while they are being removed.
    fs.rmSync(this.#paths.cell(id).directory, { recursive: true, force: true, maxRetries: 8, retryDelay: 1 })
  }

  exists(id: string): boolean {
    return exists(this.#paths.cell(id).database)
  }

  /** Of database and log; stat opens nothing, and so drops no lock (invariant 4). */
  sizeBytes(id: string): number {
    const { database, wal } = this.#paths.cell(id)
    const sizeOf = (file: string) => fs.statSync(file, { throwIfNoEntry: false })?.size ?? 0
    return sizeOf(database) + sizeOf(wal)
  }
}
