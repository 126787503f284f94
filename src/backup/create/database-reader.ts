import fs from 'node:fs'
import type { FileHandle } from 'node:fs/promises'
import { open } from 'node:fs/promises'
import type { CellDatabase } from '../../engine/cell-database.ts'
import { CellError } from '../../errors.ts'

/** Reads a database file while SQLite writes it. */
export interface DatabaseReader {
  /** Fills `bytes` from `offset` on. @returns how many bytes the file has there; fewer than asked for at its end */
  read(bytes: Buffer, offset: number): Promise<number>
  close(): Promise<void>
}

/** For the process that has the cell open: it must not open the file a second time (invariant 4). */
export class OpenDatabaseReader implements DatabaseReader {
  readonly #database: CellDatabase
  readonly #fd: number

  constructor(database: CellDatabase) {
    this.#database = database
    this.#fd = database.checkpoints.readDescriptor()
  }

  async read(bytes: Buffer, offset: number): Promise<number> {
    this.#assertOpen()
    return await readFully(async (at) => {
      const read = await readDescriptor(this.#fd, bytes, at, offset + at)
      // The descriptor may have been closed meanwhile: then its number may belong to another file.
      this.#assertOpen()
      return read
    }, bytes.length)
  }

  /** The descriptor belongs to the open cell. */
  async close(): Promise<void> {}

  #assertOpen(): void {
    if (!this.#database.open) throw new CellError('store_closed', 'The cell was closed during its backup.')
  }
}

/** For any other process. */
export class FileDatabaseReader implements DatabaseReader {
  readonly #handle: FileHandle

  private constructor(handle: FileHandle) {
    this.#handle = handle
  }

  static async open(path: string): Promise<FileDatabaseReader> {
    return new FileDatabaseReader(await open(path, 'r'))
  }

  async read(bytes: Buffer, offset: number): Promise<number> {
    return await readFully(async (at) => {
      return (await this.#handle.read(bytes, at, bytes.length - at, offset + at)).bytesRead
    }, bytes.length)
  }

  async close(): Promise<void> {
    await this.#handle.close()
  }
}

async function readFully(readAt: (at: number) => Promise<number>, length: number): Promise<number> {
  let at = 0
  for (let read = -1; at < length && read !== 0; at += read) read = await readAt(at)
  return at
}

function readDescriptor(fd: number, bytes: Buffer, at: number, position: number): Promise<number> {
  return new Promise((resolve, reject) => {
    fs.read(fd, bytes, at, bytes.length - at, position, (error, read) => {
      if (error) reject(error)
      else resolve(read)
    })
  })
}
