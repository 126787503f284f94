import fs from 'node:fs'
import { onTestFinished } from 'vitest'
import { StorePaths } from '../../src/base/files/store-paths.ts'
import { CellStore } from '../../src/store/cell-store.ts'
import type { StoreOptions } from '../../src/store/settings/store-options.ts'
import { checkIntegrity } from './integrity.ts'

interface Closable {
  close(): Promise<void>
}

/**
 * The data directory of a test. It opens stores, closes them, and checks what they leave: every store closes without an
 * error, and every database passes integrity_check.
 */
export class StoreDirectory {
  readonly path: string
  readonly paths: StorePaths
  /** Others kill a process on it, or read it without the right to write: both leave logs. */
  mayHaveLogs = false
  /** The test has a database that integrity_check refuses, so only the closing is checked. */
  isDamaged = false
  readonly #open = new Set<Closable>()

  constructor(path: string) {
    this.path = path
    this.paths = new StorePaths(path)
  }

  /** One that is closed and checked when the test has finished. */
  static ofTest(path: string): StoreDirectory {
    const directory = new StoreDirectory(path)
    onTestFinished(() => directory.close())
    return directory
  }

  async create(options: StoreOptions = {}): Promise<CellStore> {
    return this.keep(await CellStore.create(this.path, options))
  }

  async open(options: StoreOptions = {}): Promise<CellStore> {
    return this.keep(await CellStore.open(this.path, options))
  }

  async openOrCreate(options: StoreOptions = {}): Promise<CellStore> {
    return this.keep(await CellStore.openOrCreate(this.path, options))
  }

  /** Takes a store that was opened in another way. */
  keep<T extends Closable>(store: T): T {
    this.#open.add(store)
    return store
  }

  async close(): Promise<void> {
    const closing = await Promise.allSettled([...this.#open].map((store) => store.close()))
    this.#open.clear()
    for (const outcome of closing) if (outcome.status === 'rejected') throw outcome.reason
    if (this.isDamaged || !fs.existsSync(this.path)) return
    checkIntegrity(this.path, { mayHaveLogs: this.mayHaveLogs })
  }
  /** Works with a store, closes it, and checks. If the work fails, its error is the one that counts. */
  async use<T>(opening: Promise<CellStore>, work: (store: CellStore) => T | Promise<T>): Promise<T> {
    const store = await opening
    let result: T
    try {
      result = await work(store)
    } catch (error) {
      await store.close().catch(() => {})
      throw error
    }
    await this.close()
    return result
  }
}
