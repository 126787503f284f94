import fs from 'node:fs'

/**
 * The fsync of one cell's write-ahead log outside of SQLite: in the thread pool, where many cells' fsyncs run in parallel,
 * instead of one after the other inside each COMMIT. The log carries no locks, so opening and closing it here is safe
 * (invariant 4).
 *
 * A failure is final: after a failed fsync, a later one that succeeds proves nothing about what the first should have stored.
 */
export class WalSync {
  readonly #path: string
  /** Opened before the writes that it covers: only then does it report every error of them. */
  #descriptor: number | undefined
  /** Something was written since the last fsync began. */
  #pending = false
  #running = 0
  /** Who needs the descriptor open until {@link release}: for the fsync that follows what was stored elsewhere, or for reading. */
  #kept = 0
  /** Settles when all fsyncs that have begun have ended. */
  #last: Promise<void> = Promise.resolve()

  /** @param path the database file */
  constructor(path: string) {
    this.#path = `${path}-wal`
  }

  /** True while something in the log may not be on disk. */
  get pending(): boolean {
    return this.#pending || this.#running > 0
  }

  /**
   * Call before a write without an fsync.
   *
   * @returns takes it back, if nothing was written after all
   * @throws the system's error; nothing may be written then
   */
  expect(): () => void {
    this.#descriptor ??= fs.openSync(this.#path, 'r')
    if (this.#pending) return nothing
    this.#pending = true
    return () => this.abandon()
  }

  /** What is pending was stored elsewhere. The fsync follows later. */
  storedElsewhere(): void {
    this.#pending = false
    this.#kept++
  }

  /** {@link sync}, also if nothing is pending. Afterwards the descriptor need not stay open for what was stored elsewhere. */
  async syncAll(sync: () => Promise<void>): Promise<void> {
    this.expect()
    const kept = this.#kept
    await sync()
    if (this.#kept === kept) this.release()
  }

  /** The descriptor of the log, which stays open until {@link release}. @throws the system's error */
  keep(): number {
    this.#descriptor ??= fs.openSync(this.#path, 'r')
    if (this.#kept === 0) this.#kept = 1
    return this.#descriptor
  }

  release(): void {
    this.#kept = 0
    this.#close()
  }

  /** The descriptor of the log while something is pending. */
  get descriptor(): number | undefined {
    return this.#pending ? this.#descriptor : undefined
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
    // Its callers handle the error.
    this.#last.catch(() => {})
    return this.#last
  }

  /** A blocking {@link sync}, for a cell that is being closed. @throws the system's error */
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
    if (this.pending || this.#kept > 0 || this.#descriptor === undefined) return
    fs.closeSync(this.#descriptor)
    this.#descriptor = undefined
  }
}

function nothing(): void {}

function fsync(descriptor: number): Promise<void> {
  return new Promise((resolve, reject) => {
    fs.fsync(descriptor, (error) => (error === null ? resolve() : reject(error)))
  })
}
