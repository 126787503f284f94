import { createReadStream } from 'node:fs'
import fs from 'node:fs/promises'
import path from 'node:path'
import { importInThread } from '../../backup/restore/threads/restore-thread.ts'
import { unlessAborted } from '../../base/async/unless-aborted.ts'
import { checkPath } from '../../base/files/path-argument.ts'
import type { StorePaths } from '../../base/files/store-paths.ts'
import {
  BOUND,
  callback,
  checkOptions,
  definedOnly,
  maybe,
  type Shape,
  SIGNAL,
} from '../../base/options/option-shapes.ts'
import { SQL_POLICY, type SqlPolicy } from '../../engine/cell-settings.ts'
import { invalidDatabase } from '../../engine/files/database-header.ts'
import type { ImportRules } from '../../engine/files/import-database.ts'
import { CellError } from '../../errors.ts'
import { wrongEntryQuery } from '../../kv/queries.ts'
import { CELL_SCHEMA, type CellFiles } from '../open/cell-files.ts'
import { CREATE } from '../settings/call-options.ts'
import type { StoreSettings } from '../settings/settings.ts'
import type { CellCreations, CreatedCell } from './cell-creations.ts'
import type { CreateCellOptions } from './cell-directory.ts'
import {
  callerFileError,
  newSpoolFile,
  receiveFile,
  removeSpoolFile,
  type Spool,
  type SpoolRoom,
} from './spool-files.ts'

/** What becomes of an imported database, and what it may be. */
export interface ImportCellOptions extends Pick<CreateCellOptions, 'name' | 'accountId' | 'durability'> {
  /** Whose SQL may have made its schema; default: the store's `sqlPolicy`. With `tenant`, what tenants can't create is refused. */
  sqlPolicy?: SqlPolicy | undefined
  /** Bytes that the file may have; default: `limits.cellBytesMax`. */
  bytesMax?: number | undefined
  /** Ends the import; nothing is left of it. */
  signal?: AbortSignal | undefined
  /** Called with the bytes received so far. */
  onBytes?: ((bytes: number) => void) | undefined
  /** Called before anything is read; may throw. @internal */
  admit?: (() => void) | undefined
  /** Called with its bytes once all is read, and with the cell's once that is built, before there is a cell; may throw. @internal */
  permit?: ((bytes: number, cellId: string) => void) | undefined
}

const { name, accountId, durability, admit } = CREATE
const IMPORT: Shape<ImportCellOptions> = {
  name,
  accountId,
  durability,
  admit,
  sqlPolicy: maybe(SQL_POLICY),
  bytesMax: maybe(BOUND),
  signal: maybe(SIGNAL),
  onBytes: maybe(callback()),
  permit: maybe(callback()),
}

/** A database that was received, and the cell's file to be made of it. */
export interface CellBuild {
  source: string
  target: string
  bytes: number
  rules: ImportRules
  /** Whose cell it becomes; undefined: nobody's. */
  accountId: string | undefined
  signal: AbortSignal | undefined
}

/** Checks a received database and makes a cell's file of it, outside of this process's event loop. */
export type BuildCell = (build: CellBuild) => Promise<void>

/** A {@link BuildCell} for a process without workers. A thread can't be ended inside SQLite: an abort waits for it. */
export async function importHere({ source, target, rules, signal }: CellBuild): Promise<void> {
  await importInThread(source, target, rules)
  signal?.throwIfAborted()
}

export interface CellImportsParts {
  creations: CellCreations
  files: CellFiles
  paths: StorePaths
  spool: Spool
  settings: StoreSettings
  /** Called when the cell's file is there, and before the catalog has the cell. */
  built(id: string): void
}

/**
 * Makes cells of databases that were made elsewhere: received into the spool, checked and rebuilt, and only then a cell. If
 * any of it fails, nothing is left.
 */
export class CellImports {
  readonly #parts: CellImportsParts
  readonly #underWay = new Set<Promise<unknown>>()
  readonly #stopped = new AbortController()

  constructor(parts: CellImportsParts) {
    this.#parts = parts
  }

  /** @throws as `CellStore.importCell` */
  async import(
    source: string | AsyncIterable<Uint8Array>,
    options: ImportCellOptions,
    build: BuildCell,
  ): Promise<CreatedCell> {
    checkOptions(options, IMPORT)
    const { name, accountId, durability, admit } = options
    const bytes = typeof source === 'string' ? await this.#fileOf(source) : checkStream(source)
    const signal = AbortSignal.any([this.#stopped.signal, ...(options.signal ? [options.signal] : [])])
    signal.throwIfAborted()
    const created = this.#parts.creations.createBuilt(
      definedOnly({ name, accountId, durability, admit }),
      (id) => this.#fill(id, bytes, { ...options, signal }, build),
    )
    this.#underWay.add(created)
    try {
      return await created
    } finally {
      this.#underWay.delete(created)
    }
  }

  /**
   * Ends all imports with `store_closed`, also those whose source gives nothing more. Resolves when nothing is left of them, or
   * at the deadline.
   */
  async stop(deadline: AbortSignal): Promise<void> {
    this.#stopped.abort(new CellError('store_closed', 'The store is closed.'))
    await unlessAborted(Promise.allSettled(this.#underWay), deadline).catch(() => {})
  }

  async #fill(
    id: string,
    source: () => AsyncIterable<Uint8Array>,
    { sqlPolicy, accountId, bytesMax, signal, onBytes, permit }: ImportCellOptions,
    build: BuildCell,
  ): Promise<void> {
    const { files, spool, settings, built } = this.#parts
    const { cellBytesMax } = settings.limits
    const max = Math.min(bytesMax ?? cellBytesMax, cellBytesMax)
    const received = await newSpoolFile(spool.folder, 'import')
    const room = spool.take(0)
    let cellRoom: SpoolRoom | undefined
    try {
      const bytes = await receiveFile(source(), received, {
        bytesMax: max,
        tooLarge: () => tooLarge(max),
        room,
        signal,
        onBytes,
      })
      permit?.(bytes, id)
      // The cell's file is about as large.
      cellRoom = spool.take(bytes)
      const rules = importRules(settings, sqlPolicy ?? settings.sqlPolicy)
      await files.adopt(id, (target) => build({ source: received, target, bytes, rules, accountId, signal }))
      // The build may have waited for its turn, and made more of few bytes.
      permit?.(files.sizeBytes(id), id)
      built(id)
    } catch (error) {
      files.remove(id)
      throw error
    } finally {
      cellRoom?.release()
      room.release()
      await removeSpoolFile(received)
    }
  }

  /** @throws `invalid_request`, `invalid_database` */
  async #fileOf(source: string): Promise<() => AsyncIterable<Uint8Array>> {
    const field = 'source'
    checkPath(source, { field })
    const file = path.resolve(source)
    // Reading an open cell's file would drop the locks of its connection (invariant 4).
    if (file.startsWith(this.#parts.paths.root + path.sep))
      throw new CellError('invalid_request', 'The file belongs to this store: use export() of its cell.', {
        field,
      })
    for (const suffix of ['-wal', '-journal']) {
      const log = await fs.stat(file + suffix).catch(() => undefined)
      if (log !== undefined && log.size > 0) throw notComplete(`${path.basename(file)}${suffix}`)
    }
    return () => bytesOf(file)
  }
}

/** The bytes of a file that the caller has named. @throws `invalid_request` if it can't be read */
async function* bytesOf(file: string): AsyncGenerator<Uint8Array> {
  try {
    yield* createReadStream(file)
  } catch (error) {
    throw callerFileError(error, 'source')
  }
}

/** What a database must be to become a cell of a store. */
function importRules(settings: StoreSettings, policy: SqlPolicy): ImportRules {
  const { limits } = settings
  return {
    policy,
    owners: settings.ownerFunctions?.refused,
    schemaBytesMax: limits.schemaBytesMax,
    cellBytesMax: limits.cellBytesMax,
    reserved: CELL_SCHEMA.sql,
    wrongEntry: wrongEntryQuery(limits),
  }
}

function checkStream(source: AsyncIterable<Uint8Array>): () => AsyncIterable<Uint8Array> {
  if (typeof source?.[Symbol.asyncIterator] === 'function') return () => source
  throw new CellError('invalid_request', 'source must be a path or a stream of bytes.', { field: 'source' })
}

function notComplete(name: string): CellError {
  return invalidDatabase(
    `The file ${name} holds a part of the database: close the program that has it open, or run PRAGMA wal_checkpoint(TRUNCATE) there`,
  )
}

function tooLarge(limit: number): CellError {
  return new CellError(
    'body_too_large',
    `The database is larger than ${limit} bytes. Nothing was imported.`,
    { limit },
  )
}
