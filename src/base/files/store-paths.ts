import { randomUUID } from 'node:crypto'
import path from 'node:path'

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/

/** A cell's id is a lower-case UUID. No other text may reach a path or a key. */
export function isCellId(id: string): boolean {
  return typeof id === 'string' && UUID.test(id)
}

export function newCellId(): string {
  return randomUUID()
}

/** The files and folders of a store: the only place that joins their paths. */
export class StorePaths {
  readonly root: string

  constructor(root: string) {
    this.root = path.resolve(root)
  }

  get catalog(): string {
    return path.join(this.root, 'catalog.db')
  }

  /** What only this machine knows and may lose: see LocalState. */
  get localState(): string {
    return path.join(this.root, 'local.db')
  }

  get lock(): string {
    return path.join(this.root, 'lock.db')
  }

  /** Locked by the processes that hold cells open for the owner: see directory-lock.ts. */
  get workers(): string {
    return path.join(this.root, 'workers.db')
  }

  get owner(): string {
    return path.join(this.root, 'owner.json')
  }

  /** Which object store the directory's backups go to: see RememberedObjectStore. */
  get objectStore(): string {
    return path.join(this.root, 'object-store.json')
  }

  /** Of which tenures the files in `cells/` are, on a node of a cluster: see LocalTenures. */
  get tenures(): string {
    return path.join(this.root, 'tenures.json')
  }

  /** Where an adoption puts what the directory had before. */
  setAside(name: string): string {
    return path.join(this.root, `set-aside-${name}`)
  }

  /** Where a running node takes its owner's commands. */
  get socket(): string {
    return path.join(this.root, 'admin.sock')
  }

  /** Finished objects on their way to the object store. Emptied at every start. */
  get spool(): string {
    return path.join(this.root, 'spool')
  }

  /** The spool of an archiver process: it can be emptied when that process has ended. */
  spoolOf(pid: number): string {
    return path.join(this.spool, String(pid))
  }

  get cells(): string {
    return path.join(this.root, 'cells')
  }

  /** The commit logs of the processes that have cells open. Empty after a proper end. */
  get commitLogs(): string {
    return path.join(this.root, 'commit-log')
  }

  /** Two levels, so that no directory holds more than a 256th of the cells. */
  cell(id: string): CellPaths {
    const directory = path.join(this.cells, id.slice(0, 2), id)
    return new CellPaths(directory, path.join(directory, 'cell.db'), this.commitLogs)
  }

  /** The catalog is a cell too, with its files next to the others. */
  get catalogCell(): CellPaths {
    return new CellPaths(path.join(this.root, 'catalog'), this.catalog)
  }
}

/** How the names of the files end that {@link CellPaths.notRedone} names. */
export const NOT_REDONE = '.not-redone'

/** The files of one cell. */
export class CellPaths {
  readonly directory: string
  readonly database: string
  readonly #commitLogs: string

  constructor(directory: string, database = path.join(directory, 'cell.db'), commitLogs = directory) {
    this.directory = directory
    this.database = database
    this.#commitLogs = commitLogs
  }

  get wal(): string {
    return `${this.database}-wal`
  }

  get sharedMemory(): string {
    return `${this.database}-shm`
  }

  /** Write-ahead logs that were checkpointed and are not yet in the object store. */
  get segments(): string {
    return path.join(this.directory, 'segments')
  }

  /** Exists while the cell is quarantined: see Quarantine. */
  get quarantine(): string {
    return path.join(this.directory, 'quarantine.json')
  }

  /**
   * Exists while commits of the cell are in the commit log alone, because its files could not be read or written at the start.
   * Next to the log, because the cell's own folder may be out of reach.
   */
  get notRedone(): string {
    return path.join(this.#commitLogs, `${path.basename(this.directory)}${NOT_REDONE}`)
  }

  /** A restored database before the switch. */
  get restoreTarget(): string {
    return path.join(this.directory, 'incoming.db')
  }

  /** Exists while a switch to `restoreTarget` is decided and not finished. */
  get restoreIntent(): string {
    return path.join(this.directory, 'restore-intent')
  }
}
