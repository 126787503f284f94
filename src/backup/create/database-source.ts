import fs from 'node:fs'
import type { CellDatabase } from '../../engine/cell-database.ts'
import type { CheckpointHold } from '../../engine/checkpoints.ts'
import { CellError } from '../../errors.ts'
import type { MemberSource } from '../archive/archive-writer.ts'
import { DATABASE_MEMBER } from '../archive/manifest.ts'

/** A live cell's database file, read beside SQLite while no checkpoint may touch it. */
export class DatabaseSource implements MemberSource {
  readonly name = DATABASE_MEMBER
  readonly size: number
  readonly #database: CellDatabase
  readonly #hold: CheckpointHold
  readonly #fd: number

  constructor(database: CellDatabase, hold: CheckpointHold) {
    this.#database = database
    this.#hold = hold
    this.#fd = database.checkpoints.readDescriptor()
    this.size = fs.fstatSync(this.#fd).size
  }

  async read(bytes: Buffer, offset: number): Promise<void> {
    for (let at = 0; at < bytes.length; ) {
      const read = await readOnce(this.#fd, bytes, at, offset + at)
      // Asked before the bytes are used: the number of a descriptor that was closed meanwhile may be another file's.
      this.check()
      if (read === 0) throw new Error('The database file ended early.')
      at += read
    }
  }

  /** @throws `busy`, `store_closed` if what was read is worthless */
  check(): void {
    if (!this.#database.open) throw new CellError('store_closed', 'The cell was closed while it was read.')
    if (this.#hold.broken) throw outgrown(this.#database.settings.limits.walBytesMax)
  }
}

function outgrown(walBytesMax: number): CellError {
  return new CellError(
    'busy',
    `While the snapshot was read, more than ${walBytesMax} bytes were written to the cell; it was given up. Try again, or raise walBytesMax.`,
    { limit: walBytesMax },
  )
}

function readOnce(fd: number, bytes: Buffer, at: number, position: number): Promise<number> {
  return new Promise((resolve, reject) => {
    fs.read(fd, bytes, at, bytes.length - at, position, (error, read) => {
      if (error) reject(error)
      else resolve(read)
    })
  })
}
