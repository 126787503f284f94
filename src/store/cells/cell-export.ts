import { createReadStream } from 'node:fs'
import fs from 'node:fs/promises'
import path from 'node:path'
import type { Writable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { exists, FILE_MODE, fsyncDirectoryAside } from '../../base/files/durable-files.ts'
import { checkPath } from '../../base/files/path-argument.ts'
import { callback, checkOptions, maybe, type Shape, SIGNAL } from '../../base/options/option-shapes.ts'
import { setJournalMode } from '../../engine/files/database-header.ts'
import type { CellAccess } from '../../engine/holds/cell-access.ts'
import { CellError, isCellError } from '../../errors.ts'
import { callerFileError, newSpoolFile, removeSpoolFile, type Spool } from './spool-files.ts'

/** How {@link Cell.export} runs. */
export interface ExportOptions {
  /** Ends the export; nothing is left of it. */
  signal?: AbortSignal | undefined
  /** Called with the bytes of the database copied so far, and how many there are. */
  onProgress?: ((bytes: number, total: number) => void) | undefined
}

/** What an export has written. */
export interface ExportResult {
  /** Bytes of the exported file. */
  sizeBytes: number
}

/** An export in the spool. */
export interface ExportedFile {
  path: string
  sizeBytes: number
  /** Removes it. */
  remove(): Promise<void>
}

/** A cell that is copied. */
export interface CopiedCell {
  /** Opens it if necessary. */
  database(): Pick<CellAccess, 'copyTo'>
  /** @throws `cell_not_found` if it was deleted */
  assertExists(): void
}

/** What an export needs to know of a cell and its place. */
export interface ExportedCell extends CopiedCell {
  sizeBytes: number
  spool: Spool
}

/** How a cell is exported on a caller's behalf. */
export interface ServedExportOptions extends ExportOptions {
  /** Throws if the caller may not have the cell: asked before it is copied, and again once it is. */
  permit?:
    | {
        /** Called before and after the copy. @throws `unauthorized` once the key may no longer export */
        check(): void
        /** Whose request it is; undefined: the owner of the store asks. */
        readonly accountId?: string | undefined
      }
    | undefined
}

/** If restores follow one another, their caller has to do something about it. */
const COPIES_MAX = 4

const EXPORT: Shape<ExportOptions> = { signal: maybe(SIGNAL), onProgress: maybe(callback()) }

/** @throws as `Cell.export` */
export async function exportCell(
  cell: ExportedCell,
  target: string | Writable,
  options: ExportOptions,
): Promise<ExportResult> {
  checkOptions(options, EXPORT)
  if (typeof target === 'string') return await exportToFile(cell, target, options)
  if (typeof target?.write !== 'function')
    throw new CellError('invalid_request', 'target must be a path or a Writable stream.', { field: 'target' })
  const { signal } = options
  const copy = (file: string) => copyCell(cell, file, options)
  const exported = await exportToSpool(cell.spool, cell.sizeBytes, copy)
  try {
    await pipeline(createReadStream(exported.path), target, signal === undefined ? {} : { signal })
    return { sizeBytes: exported.sizeBytes }
  } finally {
    await exported.remove()
  }
}

/**
 * Has a cell copied into a new file of the spool.
 *
 * @param bytes of the cell, for which there must be room
 * @param copy writes the file, and leaves none if it fails. @returns its bytes
 * @throws `disk_full`; what `copy` and `permit` throw
 */
export async function exportToSpool(
  spool: Spool,
  bytes: number,
  copy: (file: string) => Promise<number>,
  permit?: ServedExportOptions['permit'],
): Promise<ExportedFile> {
  const file = await newSpoolFile(spool.folder, 'export')
  const sizeBytes = await copyInto(spool, bytes, () => {
    permit?.check()
    return copy(file)
  })
  const exported = { path: file, sizeBytes, remove: () => removeSpoolFile(file) }
  try {
    permit?.check()
    return exported
  } catch (error) {
    await exported.remove()
    throw error
  }
}

async function copyInto(spool: Spool, bytes: number, copy: () => Promise<number>): Promise<number> {
  const room = spool.take(bytes)
  try {
    return await copy()
  } finally {
    room.release()
  }
}

/** {@link copyDatabase}. A deletion closes the cell under its copy, which is no fault of the store. @throws `cell_not_found` then */
export async function copyCell(
  { database, assertExists }: CopiedCell,
  file: string,
  options: ExportOptions,
): Promise<number> {
  try {
    return await copyAgain(() => copyDatabase(database(), file, options))
  } catch (error) {
    assertExists()
    throw error
  }
}

/** A restore switches to another database under the copy: then that one is copied. @param copy opens the cell's database */
export async function copyAgain(copy: () => Promise<number>): Promise<number> {
  for (let copies = 1; ; copies++) {
    try {
      return await copy()
    } catch (error) {
      if (!isCellError(error, 'store_closed') || copies === COPIES_MAX) throw error
    }
  }
}

/**
 * Copies a cell's database into a file of the spool, as one file that any SQLite opens.
 *
 * @returns its bytes
 */
export async function copyDatabase(
  database: Pick<CellAccess, 'copyTo'>,
  file: string,
  options: ExportOptions = {},
): Promise<number> {
  try {
    await database.copyTo(file, options)
    // A database in WAL mode could not be read where its folder can't be written.
    return await setJournalMode(file, 'rollback')
  } catch (error) {
    await removeSpoolFile(file)
    throw error
  }
}

/** The name appears with the whole file, and only if no other file has it. */
async function exportToFile(
  cell: ExportedCell,
  target: string,
  options: ExportOptions,
): Promise<ExportResult> {
  checkPath(target, { field: 'target' })
  try {
    return await exportToNewFile(cell, target, options)
  } catch (error) {
    throw callerFileError(error, 'target')
  }
}

async function exportToNewFile(
  cell: ExportedCell,
  target: string,
  options: ExportOptions,
): Promise<ExportResult> {
  const partial = `${target}.partial`
  await reserve(target, partial)
  try {
    const sizeBytes = await copyCell(cell, partial, options)
    await using handle = await fs.open(partial, 'r+')
    await handle.sync()
    // Unlike a rename, it replaces nothing.
    await fs.link(partial, target).catch((error) => {
      throw existed(error)
    })
    await fsyncDirectoryAside(path.dirname(path.resolve(target)))
    return { sizeBytes }
  } finally {
    await removeSpoolFile(partial)
  }
}

/** @throws `invalid_request` */
async function reserve(target: string, partial: string): Promise<void> {
  if (exists(target)) throw alreadyThere()
  try {
    await (await fs.open(partial, 'wx', FILE_MODE)).close()
  } catch (error) {
    throw existed(error)
  }
}

function existed(error: unknown): unknown {
  return (error as NodeJS.ErrnoException).code === 'EEXIST' ? alreadyThere(error) : error
}

function alreadyThere(cause?: unknown): CellError {
  const message = 'There is a file of this name already. Remove it, or choose another name.'
  return new CellError('invalid_request', message, { field: 'target', cause })
}
