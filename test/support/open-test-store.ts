import path from 'node:path'
import type { CellStore } from '../../src/store/cell-store.ts'
import type { Cell } from '../../src/store/open/cell.ts'
import type { StoreOptions } from '../../src/store/settings/store-options.ts'
import { FakeClock } from './fake-clock.ts'
import { StoreDirectory } from './store-directory.ts'
import { tempDirectory } from './temp-directory.ts'

/** A store in a directory of its own, on a clock that the test moves. */
export class TestStore {
  readonly clock: FakeClock
  store!: CellStore
  readonly #directory = StoreDirectory.ofTest(path.join(tempDirectory(), 'data'))
  readonly #options: StoreOptions

  constructor(options: StoreOptions & { clock: FakeClock }) {
    this.clock = options.clock
    // A restore waits for its turn to ship, and this clock stands still. Tests of shipping turn it on.
    this.#options = { ...options, backups: { maxLagMs: null, ...options.backups } }
  }

  get directory(): string {
    return this.#directory.path
  }

  async create(): Promise<this> {
    this.store = await this.#directory.create(this.#options)
    return this
  }

  /** Closes the store and opens it again; handles of the old one are dead. */
  async reopen(options: StoreOptions = {}): Promise<CellStore> {
    await this.store.close()
    this.store = await this.#directory.open({ ...this.#options, ...options })
    return this.store
  }
}

/** Opens a new store. When the test has finished it is closed and checked. */
export async function openTestStore(options: StoreOptions & { clock?: FakeClock } = {}): Promise<TestStore> {
  return await new TestStore({
    random: () => 0.5,
    ...options,
    clock: options.clock ?? new FakeClock(),
  }).create()
}

/** A new cell in a new store. */
export async function openTestCell(
  options: StoreOptions & { clock?: FakeClock } = {},
): Promise<TestStore & { cell: Cell }> {
  const test = await openTestStore(options)
  return Object.assign(test, { cell: test.store.createCell() })
}
