import { queueMicrotask } from '../base/clock.ts'
import { type CellDatabaseSettings, configure } from './cell-settings.ts'
import type { Connection, DriverConnection, Statement } from './sqlite.ts'

/** Reads that share one transaction at most: a loop that waits for what another program commits sees it then. */
const READS_MAX = 128
/** From so many reads on, a transaction has saved more than it cost, and the next read begins one again. */
const READS_WORTH = 4
/** Reads without a transaction, at most, where the last ones were not worth it. */
const READS_APART_MAX = 256

/**
 * One read transaction for many reads of a run: what a program does between two waits. Each read apart takes SQLite's locks and looks
 * whether the file has changed, which costs more than to read a row. The transaction ends with the run, in a microtask, so that what comes after
 * an `await` or an event sees what others have committed; and before anything but a read, through {@link KeepingConnection} or {@link end}.
 * See docs/decisions/0039-reads-of-one-run.md.
 */
export class KeptReads {
  readonly #connection: Connection
  /** Prepared with their first use: most of thousands of open cells need none. */
  #begin: Statement | undefined
  #commit: Statement | undefined
  #isOpen = false
  /** Reads until the open transaction ends. */
  #left = 0
  /** Reads until a transaction begins. */
  #wait = READS_WORTH
  /** So many reads go without one after the one before has ended. */
  #apart = READS_WORTH
  #endsWithRun = false

  constructor(connection: Connection) {
    this.#connection = connection
  }

  get isOpen(): boolean {
    return this.#isOpen
  }

  /** Before a read, of which nothing has run yet. Never throws. */
  before(): void {
    if (this.#isOpen) {
      if (--this.#left > 0) return
      this.end()
    } else if (--this.#wait > 0) return
    this.#open()
  }

  /** Before anything else on the connection. Never throws. */
  end(): void {
    if (!this.#isOpen) return
    try {
      this.#commit?.run()
    } catch {
      // Called from within a statement that still runs, by a function of the owner: what comes next is refused, too.
      if (this.#connection.inTransaction) return
    }
    this.#isOpen = false
    const isWorth = READS_MAX - this.#left >= READS_WORTH - 1
    this.#apart = isWorth ? 1 : Math.min(2 * Math.max(this.#apart, READS_WORTH), READS_APART_MAX)
    this.#wait = this.#apart
  }

  #open(): void {
    this.#wait = READS_APART_MAX
    if (this.#isOpen || this.#connection.inTransaction) return
    try {
      this.#commit ??= this.#connection.prepare('COMMIT')
      this.#begin ??= this.#connection.prepare('BEGIN')
      this.#begin.run()
    } catch {
      // Each read is one of its own then.
      return
    }
    this.#isOpen = true
    this.#left = READS_MAX
    if (this.#endsWithRun) return
    this.#endsWithRun = true
    queueMicrotask(() => {
      this.#endsWithRun = false
      this.end()
    })
  }
}

/**
 * The same connection for everything else: what it is asked, prepares or runs ends the transaction of the reads first. Statements that
 * were prepared before don't pass it: a change does in `changing()`, others where they run.
 */
export class KeepingConnection implements Connection {
  readonly reads: KeptReads
  readonly prepare: Connection['prepare']
  readonly function: Connection['function']
  readonly #connection: DriverConnection

  constructor(connection: DriverConnection) {
    const reads = new KeptReads(connection)
    this.reads = reads
    this.#connection = connection
    // Its type is one for each call.
    this.prepare = ((sql: string) => {
      reads.end()
      return connection.prepare(sql)
    }) as Connection['prepare']
    this.function = ((name: string, options: object, run: (...args: unknown[]) => unknown) => {
      reads.end()
      return connection.function(name, options, run)
    }) as Connection['function']
  }

  configure(settings: CellDatabaseSettings): void {
    configure(this.#connection, settings)
  }

  get name(): string {
    return this.#connection.name
  }

  get open(): boolean {
    return this.#connection.open
  }

  get inTransaction(): boolean {
    return this.#others.inTransaction && !this.reads.isOpen
  }

  exec(sql: string): unknown {
    return this.#others.exec(sql)
  }

  pragma(...args: Parameters<Connection['pragma']>): unknown {
    return this.#others.pragma(...args)
  }

  backup(...args: Parameters<Connection['backup']>): ReturnType<Connection['backup']> {
    return this.#others.backup(...args)
  }

  close(): unknown {
    return this.#others.close()
  }

  get #others(): Connection {
    this.reads.end()
    return this.#connection
  }
}
