import fs from 'node:fs'

/**
 * The fsync of one cell's write-ahead log outside of SQLite: in the thread pool, where those of many cells go side by
 * side, instead of one after the other inside each COMMIT. The log carries no locks, so opening and closing it here is
 * safe (invariant 4).
 *
 * A failure stays: once an fsync has failed, a later one that succeeds proves nothing of what the first was to store.
 */
export class WalSync {
  readonly #path: string
  /** Opened before what it is to store is written: only then does it hear of every error. */
  #descriptor: number | undefined
  /** Something was written that no fsync covers which has begun since. */
  #pending = false
  #running = 0
  /** Settles when all that have begun have ended. */
  #last: Promise<void> = Promise.resolve()

  /** @param path of the database */
  constructor(path: string) {
    this.#path = `${path}-wal`
  }

  /** True while something in the log may not be on disk. */
  get pending(): boolean {
    return this.#pending || this.#running > 0
  }

  /** Before something is written without an fsync. @throws what opening a file throws; nothing is to be written then */
  expect(): void {
    this.#descriptor ??= fs.openSync(this.#path, 'r')
    this.#pending = true
  }

  /** Resolves once all that is in the log is on disk. Rejects with the system's error. */
  sync(): Promise<void> {
    if (!this.#pending) return this.#last
    this.#pending = false
    this.#running++
    const before = this.#last
    const own = fsync(this.#descriptor as number).finally(() => {
      this.#running--
      this.#close()
    })
    this.#last = Promise.all([before, own]).then(() => {})
    // Whoever waits for it hears of it.
    this.#last.catch(() => {})
    return this.#last
  }

  /** The same at once, for a cell that is being closed. @throws the system's error */
  syncNow(): void {
    if (!this.#pending) return
    this.#pending = false
    try {
      fs.fsyncSync(this.#descriptor as number)
    } catch (error) {
      this.#last = Promise.reject(error)
      this.#last.catch(() => {})
      throw error
    } finally {
      this.#close()
    }
  }

  /** Forgets what is pending: it must not be acknowledged any more. */
  abandon(): void {
    this.#pending = false
    this.#close()
  }

  #close(): void {
    if (this.pending || this.#descriptor === undefined) return
    fs.closeSync(this.#descriptor)
    this.#descriptor = undefined
  }
}

function fsync(descriptor: number): Promise<void> {
  return new Promise((resolve, reject) => {
    fs.fsync(descriptor, (error) => (error === null ? resolve() : reject(error)))
  })
}
