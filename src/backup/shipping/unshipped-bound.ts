import type { Log } from '../../base/log.ts'
import { walBytes } from '../../engine/wal-file.ts'
import type { LogPiece, UnshippedLog } from '../changes/cell-log.ts'
import type { LogPort } from './log-port.ts'

const EVERYTHING = { cellsMax: Number.MAX_SAFE_INTEGER, bytesMax: Number.MAX_SAFE_INTEGER, about: [] }

export interface UnshippedBoundParts {
  cells: LogPort
  bytesMax: number
  /** Makes a version of a cell that begins a new history. */
  makeVersion(cellId: string): Promise<void>
  log: Log
}

/** Bounds the disk that unshipped logs take while the object store does not answer. */
export class UnshippedBound {
  readonly #parts: UnshippedBoundParts
  /** Cells that need a version. */
  readonly #dropped = new Set<string>()
  #making: Promise<void> | undefined

  constructor(parts: UnshippedBoundParts) {
    this.#parts = parts
  }

  /** Gives up the histories of the largest cells if there is too much. @returns the bytes that wait */
  async enforce(): Promise<number> {
    const { cells, bytesMax, log } = this.#parts
    const { logs } = await cells.collectLogs(EVERYTHING)
    let total = unshippedBytes(logs)
    if (total <= bytesMax) return total
    const bySize = logs
      .map((each) => ({ cellId: each.cellId, bytes: unshippedBytes([each]) }))
      .sort((a, b) => b.bytes - a.bytes)
    for (const { cellId, bytes } of bySize) {
      if (total <= bytesMax) break
      log.warn(
        { cellId, bytes, bytesMax },
        'too much waits to be shipped: this cell gets a new version once the object store answers, and no moment between that and its last shipped one can be restored',
      )
      this.#dropped.add(cellId)
      await cells.dropHistory(cellId)
      total -= bytes
    }
    return total
  }

  /** Call when the object store answers: makes the versions, one after the other. */
  catchUp(): void {
    if (this.#dropped.size === 0 || this.#making !== undefined) return
    this.#making = this.#makeVersions().finally(() => {
      this.#making = undefined
    })
  }

  /** The versions have ended; their maker is stopped. */
  async settled(): Promise<void> {
    await this.#making
  }

  async #makeVersions(): Promise<void> {
    const { makeVersion, log } = this.#parts
    for (const cellId of [...this.#dropped]) {
      try {
        await makeVersion(cellId)
        this.#dropped.delete(cellId)
      } catch (err) {
        log.warn(
          { cellId, err },
          'could not make the version that a cell needs to be shipped again; trying again',
        )
        return
      }
    }
  }
}

/** Bytes of WALs. */
export function unshippedBytes(logs: readonly UnshippedLog[]): number {
  const size = ({ from, to, pageSize }: LogPiece) => walBytes(to, pageSize) - walBytes(from, pageSize)
  return logs.reduce((sum, { pieces }) => pieces.reduce((all, piece) => all + size(piece), sum), 0)
}
