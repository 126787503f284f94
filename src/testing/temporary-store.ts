import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { pathToFileURL } from 'node:url'
import { CellStore, type StoreOptions } from '../index.ts'

/** A store in a directory that goes with it. */
export interface TemporaryStore {
  readonly store: CellStore
  /** Holds `data` and, unless another object store was given, `objects`. */
  readonly directory: string
  /** Closes the store and removes its directory; no-op once it has. `await using` does it too. */
  close(): Promise<void>
  /** {@link close}, for `await using`. */
  [Symbol.asyncDispose](): Promise<void>
}

/**
 * Makes a store for a test, in a directory of its own below the system's folder for temporary files.
 *
 * ```ts
 * await using temporary = await temporaryStore()
 * const cell = temporary.store.createCell()
 * ```
 *
 * @param options those of a store; without `objectStore`, backups go to a folder in the directory
 * @throws what `CellStore.create` throws
 */
export async function temporaryStore(options: StoreOptions = {}): Promise<TemporaryStore> {
  const directory = fs.mkdtempSync(path.join(os.tmpdir(), 'cellstore-'))
  const remove = () => fs.promises.rm(directory, { recursive: true, force: true })
  try {
    const objectStore = pathToFileURL(path.join(directory, 'objects')).href
    const store = await CellStore.create(path.join(directory, 'data'), { objectStore, ...options })
    let closing: Promise<void> | undefined
    const close = () => {
      closing ??= store.close().finally(remove)
      return closing
    }
    return { store, directory, close, [Symbol.asyncDispose]: close }
  } catch (error) {
    await remove()
    throw error
  }
}
