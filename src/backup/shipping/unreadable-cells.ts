import type { Log } from '../../base/log.ts'
import type { LogPiece } from '../changes/log/cell-log.ts'
import type { LeftOut, MadeLogObject } from './log/log-object.ts'

/**
 * Cells whose files cannot be read. They hold up no others, and are tried again once a look has begun with all cells.
 *
 * A file that does not have what it was collected for is mostly a WAL that was reset meanwhile, and then the next look finds
 * another file. If it finds the same one, and that still does not have it, the file is damaged.
 */
export class UnreadableCells {
  readonly #log: Log
  readonly #cells = new Set<string>()
  /** Those that were told of. */
  #toldOf: ReadonlySet<string> = new Set()
  /** The file for which a cell was left out last. */
  readonly #suspects = new Map<string, string>()

  constructor(log: Log) {
    this.#log = log
  }

  /** Those that the next look leaves out. */
  get cellIds(): string[] {
    return [...this.#cells]
  }

  /** Notes what could not be read for an object. @returns the same, with damaged files among those that cannot be read */
  note({ object, leftOut, unreadable }: MadeLogObject): Pick<MadeLogObject, 'leftOut' | 'unreadable'> {
    const isDamaged = ({ cellId, piece }: LeftOut) => this.#suspects.get(cellId) === fileOf(piece)
    const damaged = leftOut.filter(isDamaged)
    const reset = leftOut.filter((each) => !isDamaged(each))
    for (const { cellId } of object?.places ?? []) this.#suspects.delete(cellId)
    for (const { cellId, piece } of leftOut) this.#suspects.set(cellId, fileOf(piece))
    const all = [...unreadable, ...damaged.map(({ cellId, piece }) => ({ cellId, error: damage(piece) }))]
    for (const { cellId, error } of all) this.#add(cellId, error)
    return { leftOut: reset, unreadable: all }
  }

  /** The next look begins with all cells. */
  tryAgain(): void {
    this.#toldOf = new Set(this.#cells)
    this.#cells.clear()
  }

  #add(cellId: string, err: unknown): void {
    this.#cells.add(cellId)
    if (!this.#toldOf.has(cellId))
      this.#log.error({ cellId, err }, 'the files of a cell cannot be read, so it is not shipped')
  }
}

function fileOf({ path, salts }: LogPiece): string {
  return `${salts} ${path}`
}

function damage({ path }: LogPiece): Error {
  return new Error(`${path} is damaged: it does not have the write-ahead log that was kept there.`)
}
