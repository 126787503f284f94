import type { Connection, Statement } from '../sqlite.ts'
import type { BoundParams } from '../statements/parameters.ts'
import type { PreparedStatement } from '../statements/prepared-statements.ts'
import { type Written, WrittenTables } from './written-tables.ts'

/** What one commit touched. It may name more than was changed, and never less; null: any of them. */
export interface CommitChanges {
  /** Keys of entries. */
  readonly keys: readonly string[] | null
  readonly tables: readonly string[] | null
}

/** How far a rollback goes back. */
export interface Touched {
  keys: number
  tables: number
}

const EVERYTHING: CommitChanges = { keys: null, tables: null }

/**
 * Notes what each commit of one connection touched, and passes it on once the commit is on disk, in the order of the
 * commits. A connection has one only while somebody watches its cell.
 */
export class CommitRecorder {
  readonly #connection: Connection
  readonly #publish: (changes: CommitChanges) => void
  readonly #keys = new TouchedNames()
  readonly #tables = new TouchedNames()
  readonly #written: WrittenTables
  readonly #totalChanges: Statement
  /** What was committed and is not on disk yet. */
  #unsynced: CommitChanges[] = []
  /** Of all commits so far, those that had to wait for an fsync. */
  #committed = 0
  /** The open transaction began before this recorder, which has missed its first changes. */
  #isLate: boolean

  /** @param publish must not throw */
  constructor(connection: Connection, publish: (changes: CommitChanges) => void) {
    this.#connection = connection
    this.#publish = publish
    this.#written = new WrittenTables(connection)
    this.#totalChanges = connection.prepare('SELECT total_changes()').pluck()
    this.#isLate = connection.inTransaction
  }

  /** An entry was put, changed or deleted. */
  key(key: string): void {
    this.#keys.add(key)
  }

  /**
   * Runs a caller's statement that is not only a query. One that fails can leave changes behind (`OR FAIL`): SQLite's count
   * of changed rows tells.
   */
  statement<T>(prepared: PreparedStatement, bound: BoundParams, version: number, run: () => T): T {
    if (prepared.statement.readonly) return run()
    const written = this.#written.of(prepared, bound, version)
    if (!written.isCounted) {
      this.#touch(written)
      return run()
    }
    const before = this.#totalChanges.get()
    try {
      return run()
    } finally {
      if (this.#totalChanges.get() !== before) this.#touch(written)
    }
  }

  /** A statement has written that SQLite calls read-only: it has written statistics, in tables of SQLite's. */
  unseen(): void {
    this.#tables.add(null)
  }

  /** Whether what was touched waits for a commit. */
  get isTouched(): boolean {
    return this.#isLate || this.#keys.mark > 0 || this.#tables.mark > 0
  }

  mark(): Touched {
    return { keys: this.#keys.mark, tables: this.#tables.mark }
  }

  /** @param mark where the savepoint began; undefined: at the beginning */
  rolledBack(mark?: Touched): void {
    const isOver = !this.#connection.inTransaction
    if (isOver) this.#isLate = false
    this.#keys.rewind(isOver ? 0 : (mark?.keys ?? 0))
    this.#tables.rewind(isOver ? 0 : (mark?.tables ?? 0))
  }

  /** @param isOnDisk false: an fsync will follow, see {@link syncing} */
  committed(isOnDisk: boolean): void {
    if (!this.isTouched) return
    const touched = { keys: this.#keys.take(), tables: this.#tables.take() }
    const changes = this.#isLate ? EVERYTHING : touched
    this.#isLate = false
    if (isOnDisk) {
      // Its own fsync has covered those before it.
      for (const before of this.#unsynced.splice(0)) this.#publish(before)
      this.#publish(changes)
      return
    }
    this.#committed++
    this.#unsynced.push(changes)
  }

  /**
   * An fsync begins.
   *
   * @param isAllOnDisk asked after it
   * @returns called once it has succeeded: what waits now is on disk then
   */
  syncing(isAllOnDisk: () => boolean): () => void {
    const upTo = this.#committed
    return () => {
      const later = isAllOnDisk() ? 0 : this.#committed - upTo
      const covered = this.#unsynced.length - later
      for (const changes of this.#unsynced.splice(0, Math.max(0, covered))) this.#publish(changes)
    }
  }

  #touch({ tables, keys }: Written): void {
    if (keys) this.#keys.add(null)
    if (tables === null) this.#tables.add(null)
    else for (const table of tables) this.#tables.add(table)
  }
}

/** Characters of names that one commit may name. Beyond that it may have touched any. */
const LENGTH_MAX = 32_768
/** What a short name takes in memory, in characters. */
const NAME_LENGTH = 8

/**
 * What the open transaction has touched, by name; null stands for "any of them". What is rolled back was not touched: a
 * mark tells how far to go back.
 */
class TouchedNames {
  readonly #names: (string | null)[] = []
  readonly #known = new Set<string | null>()
  #length = 0

  add(name: string | null): void {
    if (this.#known.has(null) || this.#known.has(name)) return
    const isTooMuch = name !== null && this.#length + lengthOf(name) > LENGTH_MAX
    const noted = isTooMuch ? null : name
    this.#known.add(noted)
    this.#names.push(noted)
    this.#length += lengthOf(noted)
  }

  get mark(): number {
    return this.#names.length
  }

  rewind(mark: number): void {
    while (this.#names.length > mark) {
      const name = this.#names.pop() as string | null
      this.#known.delete(name)
      this.#length -= lengthOf(name)
    }
  }

  /** Leaves none. @returns null for any */
  take(): readonly string[] | null {
    const names = this.#known.has(null) ? null : (this.#names.slice() as string[])
    this.rewind(0)
    return names
  }
}

function lengthOf(name: string | null): number {
  return name === null ? 0 : name.length + NAME_LENGTH
}
