import { KeyedQueue } from '../../base/fairness/keyed-queue.ts'
import { quotaExceeded } from '../../catalog/account-quotas.ts'
import { longLogBytes } from '../../engine/wal/checkpoints.ts'
import { CellError, isCellError } from '../../errors.ts'
import type { CellService, ExecuteOptions } from '../../service/cell-service.ts'
import { type CellOperation, READ_OPERATIONS, type ResultOf, routeOf } from '../../service/operations.ts'
import type { CellDirectory } from '../../store/cells/cell-directory.ts'
import { StoredBytes } from './stored-bytes.ts'

/** Of the room that is left, what all first runs of operations may take together, so that no number of small ones keeps out a large one. */
const FIRST_SHARE = 1 / 4
/** Of what is left of that, what one of them may take. */
const FIRST_PART = 1 / 16
/** Of the room that is left, what an operation may take that needs more: new cells and imports still find some. */
const SECOND_SHARE = 11 / 16
/** Above the quota, the share of it that deletions may take while they work. */
const DELETE_SHARE = 1 / 16
/** What a new cell takes, at least. */
const CELL_BYTES_MIN = 8_192

/** The bytes of one import, of one restore, or of one new cell with the state of another. */
export interface Arrival {
  /**
   * Sets how many they are. Once there is a file that has them, it counts in their place.
   *
   * @param cellId the cell that is to have them
   * @param replaced bytes of the cell that they replace; what is not larger is never refused
   * @throws `quota_exceeded`
   */
  take(cellId: string, bytes: number, replaced?: number): void
  /** There is a cell that has them, or there will be none. */
  release(): void
}

type Call<O> = [cellId: string, operation: O, options: ExecuteOptions | undefined]
/** Which part of the room an operation may take: it runs with the next one if it needs more. */
type Share = 'first' | 'second' | 'all'

/**
 * A {@link CellService} whose accounts store a limited number of bytes. Without room, cells work but their files do not grow. What
 * operations, imports and restores under way may add is reserved before, so that those that come together have together no more.
 */
export class StoredBytesQuota {
  readonly #defaultMax: number | undefined
  readonly #store: CellDirectory
  readonly #stored: StoredBytes
  /** Of imports, restores and operations that run again. */
  readonly #reserved = new ReservedBytes()
  /** Of operations that run for the first time. */
  readonly #first = new ReservedBytes()
  /** Operations that run again, by account: one at a time. */
  readonly #larger = new KeyedQueue()
  /** What ends the reservation of an import or restore, by the cell that is to have its bytes. */
  readonly #arrivals = new Map<string, () => void>()

  /** @param defaultMax of accounts without a quota of their own; undefined: those have no bound */
  constructor(defaultMax: number | undefined, store: CellDirectory) {
    this.#defaultMax = defaultMax
    this.#store = store
    this.#stored = new StoredBytes(store)
    // After it is measured.
    store.filesReplaced.listen((cellId) => this.#arrivals.get(cellId)?.())
  }

  /** Before a cell is made. @throws `quota_exceeded` */
  checkRoomForCell(accountId: string): void {
    const max = this.#maxOf(accountId)
    if (max !== undefined && this.#usageOf(accountId) + CELL_BYTES_MIN > max)
      throw this.#exceeded(accountId, max)
  }

  /** For one import or restore: its bytes count before a cell has them, so that several at once share what is left. */
  arrival(accountId: string): Arrival {
    const own = this.#reserved.of(accountId)
    let cell: string | undefined
    const release = () => {
      if (cell !== undefined && this.#arrivals.get(cell) === release) this.#arrivals.delete(cell)
      own.set(0)
    }
    const take = (cellId: string, bytes: number, replaced = 0) => {
      const max = this.#maxOf(accountId)
      if (max === undefined) return
      const usage = this.#usageOf(accountId) - own.bytes - replaced
      const has = `The account stores or is about to store ${usage} bytes, and this database has ${bytes}`
      if (bytes > replaced && usage + bytes > max) throw quotaExceeded('bytesMax', has, max, usage)
      own.set(Math.max(0, bytes - replaced))
      cell = cellId
      this.#arrivals.set(cellId, release)
    }
    return { take, release }
  }

  /** Bytes that the account may still store; 0 if it has more than its quota, Infinity if it has no bound. */
  roomOf(accountId: string): number {
    const max = this.#maxOf(accountId)
    return max === undefined ? Number.POSITIVE_INFINITY : Math.max(0, max - this.#usageOf(accountId))
  }

  /** @returns the service, for requests of accounts */
  within(service: CellService): CellService {
    return {
      execute: (cellId, operation, options) => this.#execute(service, cellId, operation, options),
      watch: (cellId, options, permit) => service.watch(cellId, options, permit),
      describe: (cellId) => service.describe(cellId),
      exportCell: (cellId, options) => service.exportCell(cellId, options),
      importCell: (source, options) => service.importCell(source, options),
      branchCell: (options) => service.branchCell(options),
      deleteCell: (cellId, options) => service.deleteCell(cellId, options),
      confirmCell: (cellId) => service.confirmCell(cellId),
      confirmRecord: (cellId) => service.confirmRecord(cellId),
      get backups() {
        return service.backups
      },
    }
  }

  /** Not async: an account without a bound pays for no further promise. */
  #execute<O extends CellOperation>(
    service: CellService,
    cellId: string,
    operation: O,
    options: ExecuteOptions | undefined,
  ): Promise<ResultOf<O>> {
    const accountId = READ_OPERATIONS.has(routeOf(operation))
      ? undefined
      : this.#store.findCell(cellId)?.accountId
    const max = accountId == null ? undefined : this.#maxOf(accountId)
    if (accountId == null || max === undefined) return service.execute(cellId, operation, options)
    return this.#executeWithin(max, accountId, service, [cellId, operation, options])
  }

  /**
   * SQLite undoes an operation that needs more than it may take: it can run again, with more. Of these an account has one at a time.
   */
  async #executeWithin<O extends CellOperation>(
    max: number,
    accountId: string,
    service: CellService,
    call: Call<O>,
  ): Promise<ResultOf<O>> {
    const run = (share: Share) => this.#executeWithShare(share, max, accountId, service, call)
    // What is undone of a transaction that goes on can't run again.
    if (call[1].hold?.isOpen === true) return await run('second')
    let outgrown: CellError
    try {
      return await run('first')
    } catch (error) {
      if (!this.#isOutgrown(error)) throw error
      outgrown = error
    }
    if (this.#stored.of(accountId) >= max) throw this.#exceeded(accountId, max, outgrown)
    return this.#larger.run(accountId, async () => {
      for (const share of ['second', 'all'] as const)
        try {
          return await run(share)
        } catch (error) {
          if (!this.#isOutgrown(error)) throw error
          outgrown = error
        }
      throw this.#exceeded(accountId, max, outgrown)
    })
  }

  /** @throws `cell_full` with the bytes that it may add, if it needs more: see {@link #isOutgrown} */
  async #executeWithShare<O extends CellOperation>(
    share: Share,
    max: number,
    accountId: string,
    service: CellService,
    [cellId, operation, options]: Call<O>,
  ): Promise<ResultOf<O>> {
    const bytes = this.#bytesOf(share, max, accountId)
    const over = this.#stored.of(accountId) - max
    // One cell's log may have so much that nobody has counted.
    const mayDelete = over < max * DELETE_SHARE + longLogBytes(this.#store.settings.checkpointBytes)
    const reserved = (share === 'first' ? this.#first : this.#reserved).of(accountId)
    reserved.set(bytes)
    try {
      const growth = mayDelete ? bytes : 'none'
      return (await service.execute(cellId, { ...operation, growth }, options)) as ResultOf<O>
    } finally {
      reserved.set(0)
      this.#stored.changed(accountId, cellId)
    }
  }

  /** What an operation may add now. */
  #bytesOf(share: Share, max: number, accountId: string): number {
    const first = this.#first.sumOf(accountId)
    const left = max - this.#usageOf(accountId)
    const room = left + first
    const most = { first: (room * FIRST_SHARE - first) * FIRST_PART, second: room * SECOND_SHARE, all: left }
    return Math.max(0, Math.floor(Math.min(left, most[share])))
  }

  #usageOf(accountId: string): number {
    return this.#stored.of(accountId) + this.#reserved.sumOf(accountId) + this.#first.sumOf(accountId)
  }

  /** A cell at its own bound has the same code and names that one. A schema that is too long, and a table at its last rowid, name none. */
  #isOutgrown(error: unknown): error is CellError {
    if (!isCellError(error, 'cell_full') || error.details.sqliteCode !== 'SQLITE_FULL') return false
    return (
      error.details.limit !== undefined && error.details.limit !== this.#store.settings.limits.cellBytesMax
    )
  }

  /** Without a bound nothing is measured, so that what was measured before is forgotten. */
  #maxOf(accountId: string): number | undefined {
    const max = this.#store.accounts.quotasOf(accountId)?.bytesMax ?? this.#defaultMax
    if (max === undefined) this.#stored.forget(accountId)
    return max
  }

  /** @param cause of a batch it has the operation's index */
  #exceeded(accountId: string, max: number, cause?: CellError): CellError {
    const usage = this.#usageOf(accountId)
    const has = `The account stores or is about to store ${usage} bytes, and this needs more than the rest`
    const error = quotaExceeded('bytesMax', has, max, usage)
    const index = cause?.details.index
    return index === undefined
      ? error
      : new CellError(error.code, error.message, { ...error.details, index, cause })
  }
}

/** A part of what an account has reserved. */
interface Reservation {
  readonly bytes: number
  /** 0 ends it. */
  set(bytes: number): void
}

/** Bytes that accounts do not store yet but may be about to, so that all that is under way counts together. */
class ReservedBytes {
  readonly #sums = new Map<string, number>()

  sumOf(accountId: string): number {
    return this.#sums.get(accountId) ?? 0
  }

  /** @returns a new reservation, of 0 bytes */
  of(accountId: string): Reservation {
    let own = 0
    return {
      get bytes() {
        return own
      },
      set: (bytes) => {
        const sum = this.sumOf(accountId) + bytes - own
        if (sum === 0) this.#sums.delete(accountId)
        else this.#sums.set(accountId, sum)
        own = bytes
      },
    }
  }
}
