import path from 'node:path'
import { onTestFinished } from 'vitest'
import type { Cell } from '../../src/store/cell.ts'
import { CellStore } from '../../src/store/cell-store.ts'
import type { StoreOptions } from '../../src/store/settings.ts'
import { FakeClock } from './fake-clock.ts'
import { checkIntegrity } from './integrity.ts'
import { tempDirectory } from './temp-directory.ts'

/** A store in a directory of its own, on a clock that the test moves. */
export class TestStore {
  readonly directory: string
  readonly clock: FakeClock
  readonly #options: StoreOptions
  store: CellStore

  constructor(store: CellStore, directory: string, options: StoreOptions & { clock: FakeClock }) {
    this.store = store
    this.directory = directory
    this.clock = options.clock
    this.#options = options
  }

  /** Closes the store and opens it again; handles of the old one are dead. */
  async reopen(options: StoreOptions = {}): Promise<CellStore> {
    await this.store.close()
    this.store = await CellStore.open(this.directory, { ...this.#options, ...options })
    return this.store
  }
}

/** Opens a new store. When the test has finished it is closed, and every cell passes integrity_check. */
export async function openTestStore(options: StoreOptions & { clock?: FakeClock } = {}): Promise<TestStore> {
  const directory = path.join(tempDirectory(), 'data')
  const all = { random: () => 0.5, ...options, clock: options.clock ?? new FakeClock() }
  const test = new TestStore(await CellStore.create(directory, all), directory, all)
  onTestFinished(async () => {
    await test.store.close()
    checkIntegrity(directory)
  })
  return test
}

/** A new cell in a new store. */
export async function openTestCell(
  options: StoreOptions & { clock?: FakeClock } = {},
): Promise<TestStore & { cell: Cell }> {
  const test = await openTestStore(options)
  return Object.assign(test, { cell: test.store.createCell() })
}
