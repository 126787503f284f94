import fs from 'node:fs'
import path from 'node:path'
import { FileObjectStore } from '../../../src/backup/object-store/file/file-object-store.ts'
import { type CellPaths, StorePaths } from '../../../src/base/files/store-paths.ts'
import type { StoreOptions } from '../../../src/store/settings/store-options.ts'
import { StoreDirectory } from '../store-directory.ts'
import { prepareLedger, readLedger, writeEntry } from './ledger.ts'
import { untilServed } from './until-served.ts'

/** A closed store with a cell that has changed since it was backed up. Copies of it are what restores are tried on. */
export class RestorePlace {
  readonly root: string
  readonly cell: string
  /** The version that is restored: a base, and two incrementals on it. */
  readonly version: string
  /** Before the restore, and after it. */
  readonly before: readonly number[]
  readonly after: readonly number[]

  private constructor(root: string, cell: string, version: string, before: number[], after: number[]) {
    this.root = root
    this.cell = cell
    this.version = version
    this.before = before
    this.after = after
  }

  static async create(root: string): Promise<RestorePlace> {
    fs.mkdirSync(root)
    const data = new StoreDirectory(path.join(root, 'data'))
    const store = await data.create(optionsOf(root))
    const cell = store.createCell()
    prepareLedger(cell)
    let n = 0
    const writeSome = () => {
      for (const end = n + 12; n < end; n++) cell.transaction(() => writeEntry(cell, n))
    }
    writeSome()
    await store.backups.snapshot(cell.id)
    writeSome()
    await store.backups.incremental(cell.id)
    writeSome()
    const { version } = await store.backups.incremental(cell.id)
    const after = readLedger(cell) as number[]
    writeSome()
    const before = readLedger(cell) as number[]
    await data.close()
    return new RestorePlace(root, cell.id, version, before, after)
  }

  copyTo(root: string): void {
    fs.cpSync(this.root, root, { recursive: true })
  }

  /** The cell's files in a copy. */
  pathsIn(root: string): CellPaths {
    return new StorePaths(path.join(root, 'data')).cell(this.cell)
  }

  /** The files below a copy whose calls count. */
  filesIn(root: string): string[] {
    const paths = new StorePaths(path.join(root, 'data'))
    const cell = this.pathsIn(root)
    const databases = [cell.database, cell.restoreTarget, paths.catalog, paths.localState]
    const objects = fs
      .readdirSync(path.join(root, 'objects'), { recursive: true, withFileTypes: true })
      .map((entry) => path.join(entry.parentPath, entry.name))
    return [
      ...databases.flatMap((file) => ['', '-wal', '-shm', '-journal'].map((suffix) => file + suffix)),
      ...[cell.directory, cell.segments, cell.restoreIntent, path.dirname(cell.directory), paths.root],
      ...objects,
    ]
  }

  /**
   * Starts a store on a copy, and looks at what a restore has left.
   *
   * @throws if the cell is neither as it was before nor as it was to be, or can't be used
   */
  async look(root: string): Promise<'old' | 'new'> {
    const data = new StoreDirectory(path.join(root, 'data'))
    const found = await data.use(data.openOrCreate(optionsOf(root)), async (store) => {
      const cell = await untilServed(store.openCell(this.cell))
      const first = readLedger(cell)
      // It can be written to, backed up, and restored after all.
      cell.transaction(() => writeEntry(cell, 999))
      const last = await store.backups.incremental(this.cell)
      await store.backups.restore(this.cell, { version: this.version })
      if (String(readLedger(cell)) !== String(this.after)) throw new Error('A second restore has failed')
      await store.backups.restore(this.cell, { version: last.version })
      if (!readLedger(cell)?.includes(999)) throw new Error('A backup made afterwards is not what it was')
      return first
    })
    if (String(found) === String(this.before)) return 'old'
    if (String(found) === String(this.after)) return 'new'
    throw new Error(`The cell holds [${found}]`)
  }
}

function optionsOf(root: string): StoreOptions {
  return { objectStore: new FileObjectStore({ root: path.join(root, 'objects') }) }
}
