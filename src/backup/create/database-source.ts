import fs from 'node:fs'
import type { CellDatabase } from '../../engine/cell-database.ts'
import type { CheckpointHold } from '../../engine/checkpoints.ts'
import { CellError } from '../../errors.ts'
import type { MemberSource } from '../archive/archive-writer.ts'
import { DATABASE_MEMBER } from '../archive/manifest.ts'

/** The database file of an open cell, read directly while a hold forbids checkpoints. */
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
      // Before the bytes are used: if the descriptor was closed meanwhile, its number may belong to another file.
      this.check()
      if (read === 0) throw new Error('The database file became shorter during its backup.')
      at += read
    }
  }

  /** @throws `busy`, `store_closed` if the bytes read so far are worthless */
  check(): void {
    if (!this.#database.open) throw new CellError('store_closed', 'The cell was closed during its backup.')
    if (this.#hold.broken) throw walTooLarge(this.#database.settings.limits.walBytesMax)
  }
}

function walTooLarge(walBytesMax: number): CellError {
  return new CellError(
    'busy',
    `The backup was cancelled: more than ${walBytesMax} bytes were written to the cell meanwhile. Try again, or raise limits.walBytesMax.`,
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
