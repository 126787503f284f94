import { mapLimit } from '../../../base/async/map-limit.ts'
import { type CellError, isCellError } from '../../../errors.ts'
import { inObject } from '../../archive/backup-errors.ts'
import type { CallOptions } from '../../object-store/object-store.ts'
import type { JoinedWal, PieceOfWal } from '../../shipping/cell-pieces.ts'
import type { ReadableLog } from '../../shipping/stored/cell-logs.ts'
import type { PlannedObject } from '../../versions/backup-types.ts'
import { restorableUpTo } from '../target/restore-target.ts'
import type { Download } from './download.ts'
import { pieceBytes, type RestoreBuilder } from './restore-builder.ts'

const PARALLEL_READS = 16

/** What a restore applies after a version: pieces of log objects. */
export class ShippedLog {
  readonly #log: ReadableLog
  readonly #wals: readonly JoinedWal[]
  /** Epoch milliseconds: the version's time. */
  readonly #since: number
  readonly #options: CallOptions
  #sizes: Promise<PlannedObject[]> | undefined

  constructor(log: ReadableLog, wals: readonly JoinedWal[], since: number, options: CallOptions) {
    this.#log = log
    this.#wals = wals
    this.#since = since
    this.#options = options
  }

  /** What is read, and of which objects. */
  sizes(): Promise<PlannedObject[]> {
    this.#sizes ??= this.#measure()
    return this.#sizes
  }

  /** @throws `backup_corrupt` that names the object, and the moment that can be restored without it */
  async apply(builder: RestoreBuilder, download: Download): Promise<void> {
    const pieces = this.#wals.flatMap((wal) => wal.pieces)
    builder.takeThreadFor(pieces.reduce((sum, piece) => sum + pieceBytes(piece), 0))
    const sizes = new Map((await this.sizes()).map(({ key, sizeBytes }) => [key, sizeBytes]))
    for (const wal of this.#wals) {
      this.#options.signal?.throwIfAborted()
      try {
        await builder.applyWal(wal, (piece, bytes) => this.#read(piece, bytes))
      } catch (error) {
        throw isCellError(error, 'backup_corrupt') ? this.#named(error, wal) : error
      }
      for (const { ref } of wal.pieces) {
        download.received(sizes.get(ref.key) ?? 0)
        sizes.delete(ref.key)
      }
    }
  }

  async *#read({ ref, piece: { offset } }: PieceOfWal, bytes: number): AsyncGenerator<Buffer> {
    yield* this.#log.member(ref, { offset, size: bytes }, this.#options)
  }

  async #measure(): Promise<PlannedObject[]> {
    const pieces = this.#wals.flatMap((wal) => wal.pieces)
    const sizes = new Map<string, number>()
    const stored = await mapLimit(
      pieces,
      PARALLEL_READS,
      (piece) => this.#storedBytes(piece),
      this.#options.signal,
    )
    for (const [i, { ref }] of pieces.entries())
      sizes.set(ref.key, (sizes.get(ref.key) ?? 0) + (stored[i] ?? 0))
    return [...sizes].map(([key, sizeBytes]) => ({ key, sizeBytes }))
  }

  async #storedBytes(piece: PieceOfWal): Promise<number> {
    const { offset } = piece.piece
    try {
      return await this.#log.storedBytes(piece.ref, { offset, size: pieceBytes(piece) })
    } catch (error) {
      if (!isCellError(error, 'backup_corrupt')) throw error
      throw this.#named(error, this.#wals.find(({ pieces }) => pieces.includes(piece)) as JoinedWal)
    }
  }

  #named(error: CellError, wal: JoinedWal): CellError {
    const fallback = wal.pieces[0]?.ref.key ?? ''
    const named = inObject(fallback, error)
    return restorableUpTo(this.#timeBefore(named.details.version ?? fallback), named)
  }

  /** The last commit before those of an object. */
  #timeBefore(key: string): number {
    let time = this.#since
    for (const { pieces, commits } of this.#wals) {
      const bad = pieces.find(({ ref }) => ref.key === key)
      const good = bad === undefined ? commits : commits.filter(([frames]) => frames <= bad.piece.from)
      time = good.at(-1)?.[1] ?? time
      if (bad !== undefined) break
    }
    return time
  }
}
