import { quotaExceeded } from '../catalog/account-quotas.ts'
import { CellError } from '../errors.ts'
import type { CellService, ExecuteOptions } from '../service/cell-service.ts'
import type { CellOperation, ResultOf } from '../service/operations.ts'
import type { CellDirectory } from '../store/cell-directory.ts'
import { StoredBytes } from './stored-bytes.ts'

/** Above the quota, the share of it that deletions may take while they work. */
const DELETE_SHARE = 1 / 16

/** A {@link CellService} whose accounts store a limited number of bytes. Over it, cells work but their files do not grow. */
export class StoredBytesQuota {
  readonly #max: number
  readonly #store: CellDirectory
  readonly #stored: StoredBytes

  constructor(max: number, store: CellDirectory) {
    this.#max = max
    this.#store = store
    this.#stored = new StoredBytes(store)
  }

  /** Before a cell is made. @throws `quota_exceeded` */
  checkRoomForCell(accountId: string): void {
    if (this.#stored.of(accountId) >= this.#max) throw this.#exceeded(accountId)
  }

  /** Bytes that the account may still store; 0 if it has more than its quota. */
  roomOf(accountId: string): number {
    return Math.max(0, this.#max - this.#stored.of(accountId))
  }

  created(accountId: string, cellId: string): void {
    this.#stored.replaced(accountId, cellId)
  }

  /** @returns the service, for requests of accounts */
  within(service: CellService): CellService {
    return {
      execute: (cellId, operation, options) => this.#execute(service, cellId, operation, options),
      describe: (cellId) => service.describe(cellId),
      exportCell: (cellId, options) => service.exportCell(cellId, options),
      importCell: (source, options) => service.importCell(source, options),
      deleteCell: (cellId) => this.#replace(cellId, () => service.deleteCell(cellId)),
      backup: (cellId, kind, options) => service.backup(cellId, kind, options),
      restore: (cellId, options) => this.#replace(cellId, () => service.restore(cellId, options)),
      verify: (cellId, options) => service.verify(cellId, options),
      listBackups: (cellId, page, signal) => service.listBackups(cellId, page, signal),
      latestBackup: (cellId, signal) => service.latestBackup(cellId, signal),
    }
  }

  async #execute<O extends CellOperation>(
    service: CellService,
    cellId: string,
    operation: O,
    options: ExecuteOptions | undefined,
  ): Promise<ResultOf<O>> {
    const accountId = this.#store.findCell(cellId)?.accountId
    if (accountId == null || READS.has(operation.op)) return await service.execute(cellId, operation, options)
    const over = this.#stored.of(accountId) - this.#max
    try {
      if (over < 0) return await service.execute(cellId, operation, options)
      const growth = over < this.#max * DELETE_SHARE ? 'deletions' : 'none'
      return (await service.execute(cellId, { ...operation, growth }, options)) as ResultOf<O>
    } catch (error) {
      // The cell's own bound has the same code, and a schema that is too long has no code of SQLite's.
      const isFull = error instanceof CellError && error.details.sqliteCode === 'SQLITE_FULL'
      throw over >= 0 && isFull ? this.#exceeded(accountId, error) : error
    } finally {
      this.#stored.changed(accountId, cellId)
    }
  }

  async #replace<T>(cellId: string, run: () => Promise<T>): Promise<T> {
    const accountId = this.#store.findCell(cellId)?.accountId
    try {
      return await run()
    } finally {
      if (accountId != null) this.#stored.replaced(accountId, cellId)
    }
  }

  /** @param cause of a batch it has the operation's index */
  #exceeded(accountId: string, cause?: CellError): CellError {
    const usage = this.#stored.of(accountId)
    const error = quotaExceeded('bytesMax', `The account stores ${usage} bytes`, this.#max, usage)
    const index = cause?.details.index
    return index === undefined
      ? error
      : new CellError(error.code, error.message, { ...error.details, index, cause })
  }
}

const READS: ReadonlySet<CellOperation['op']> = new Set(['kv.get', 'kv.ttl', 'kv.list', 'kv.mget'])
