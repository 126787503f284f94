import fs from 'node:fs'
import path from 'node:path'
import Database from 'better-sqlite3'
import { FileObjectStore } from '../../../src/backup/object-store/file/file-object-store.ts'
import type { StorePaths } from '../../../src/base/files/store-paths.ts'
import type { CellStore } from '../../../src/store/cell-store.ts'
import type { CreateCellOptions } from '../../../src/store/cells/cell-directory.ts'
import type { Cell } from '../../../src/store/open/cell.ts'
import type { StoreOptions } from '../../../src/store/settings/store-options.ts'
import { FakeClock } from '../fake-clock.ts'
import { perTest } from '../per-test.ts'
import { StoreDirectory } from '../store-directory.ts'
import { tempDirectory } from '../temp-directory.ts'

const HOUR_MS = 3_600_000

/** A data directory and a folder of objects beside it, on a clock that the test moves. Checked and removed when the test has finished. */
export class ScratchPlace {
  /** One for each test: see {@link perTest}. */
  static perTest(): ScratchPlace {
    return perTest(() => new ScratchPlace())
  }

  readonly root = tempDirectory('cellstore-backup')
  readonly directory = StoreDirectory.ofTest(path.join(this.root, 'data'))
  readonly objects = path.join(this.root, 'kept')
  readonly clock = new FakeClock()

  get data(): string {
    return this.directory.path
  }

  get paths(): StorePaths {
    return this.directory.paths
  }

  folder(): FileObjectStore {
    return new FileObjectStore({ root: this.objects })
  }

  create(options: StoreOptions = {}): Promise<CellStore> {
    return this.directory.create(this.#options(options))
  }

  open(options: StoreOptions = {}): Promise<CellStore> {
    return this.directory.open(this.#options(options))
  }

  openOrCreate(options: StoreOptions = {}): Promise<CellStore> {
    return this.directory.openOrCreate(this.#options(options))
  }

  /** Makes the closed store's catalog one that has never heard of a cell, as one from before its making. */
  forgetCell(id: string): void {
    const connection = new Database(this.paths.catalog)
    connection.prepare('DELETE FROM cells WHERE id = ?').run(id)
    connection.close()
  }

  /** As a fire does it. */
  loseData(): void {
    fs.rmSync(this.data, { recursive: true, force: true })
  }

  /**
   * {@link FakeClock.advanceUntil}. Timers of more than an hour stay: they end what never would.
   *
   * @param timerMsMax longer ones stay. With a periodic timer below it, days pass while files are read
   */
  advanceUntil<T>(work: Promise<T>, timerMsMax = HOUR_MS): Promise<T> {
    return this.clock.advanceUntil(work, timerMsMax)
  }

  /** {@link FakeClock.advanceUntil}, for as long as a flush waits. No lag and no wait for a turn comes to its end. */
  soon<T>(work: Promise<T>): Promise<T> {
    return this.advanceUntil(work, 1_000)
  }

  /**
   * Closes a store that may wait for the clock. Its deadline never comes: on a busy disk the clock would reach it before
   * the last backups are stored.
   */
  close(store: CellStore): Promise<void> {
    return this.advanceUntil(store.close({ deadlineMs: Number.MAX_SAFE_INTEGER }))
  }

  #options(options: StoreOptions): StoreOptions {
    // Only the backups that a test asks for.
    const backups = {
      snapshotEveryMs: null,
      incrementalEveryMs: null,
      drillEveryMs: null,
      maxLagMs: null,
      // Time may run from timer to timer, and then a day is over in no time.
      deadlineMs: Number.MAX_SAFE_INTEGER,
      ...options.backups,
    }
    // Weeks may pass in a test, and records of the fence would be written in each minute of them.
    const leaseMs = HOUR_MS
    return { objectStore: this.folder(), leaseMs, clock: this.clock, random: () => 0.5, ...options, backups }
  }
}

/** A cell with a table that the helpers below use. */
export function createLedger(store: CellStore, options: CreateCellOptions = {}): Cell {
  const cell = store.createCell(options)
  cell.sql('CREATE TABLE ledger (n INTEGER PRIMARY KEY, note TEXT, payload BLOB)')
  return cell
}

/** Adds one row; its payload does not compress. */
export function addRow(cell: Cell, note: string, bytes = 100): void {
  cell.sql('INSERT INTO ledger (note, payload) VALUES (?, randomblob(?))', [note, bytes])
}

export function notes(cell: Cell): string[] {
  return cell.sql<{ note: string }>('SELECT note FROM ledger ORDER BY n').rows.map(({ note }) => note)
}
