import type { Clock } from '../../base/clock.ts'
import type { Log } from '../../base/log.ts'
import type { CallOptions, ObjectStore } from '../object-store/object-store.ts'
import { LOG_PREFIX, parseLogKey } from '../versions/object-keys.ts'
import type { LogManifest } from './log-manifest.ts'
import type { VersionCover } from './version-cover.ts'

const ROUND_MS = 6 * 3_600_000

export interface LogRetentionParts {
  objectStore: ObjectStore
  /** How long moments can be restored. */
  historyMs: number
  readManifest(key: string, options: CallOptions): Promise<LogManifest>
  /** Looks at versions from now on. */
  newCover(): Pick<VersionCover, 'covers'>
  clock: Clock
  log: Log
}

/** Removes log objects that are too old, from the oldest on, once versions hold everything that is in them. */
export class LogRetention {
  readonly #parts: LogRetentionParts
  readonly #abort = new AbortController()
  /** By the monotonic clock. */
  #notBefore = Number.NEGATIVE_INFINITY
  #running: Promise<void> | undefined

  constructor(parts: LogRetentionParts) {
    this.#parts = parts
  }

  /** Call when an object is stored: an idle node asks for nothing. */
  runIfDue(): void {
    const { clock, log } = this.#parts
    const now = clock.monotonic()
    if (now < this.#notBefore || this.#running !== undefined || this.#abort.signal.aborted) return
    this.#notBefore = now + ROUND_MS
    const { signal } = this.#abort
    this.#running = this.run({ signal })
      .then(() => {})
      .catch((err) => {
        if (!signal.aborted) log.warn({ err }, 'could not remove old log objects; trying again in six hours')
      })
      .finally(() => {
        this.#running = undefined
      })
  }

  async stop(): Promise<void> {
    this.#abort.abort()
    await this.#running
  }

  /** @returns the keys that it has removed */
  async run(options: CallOptions = {}): Promise<string[]> {
    const { objectStore, newCover, log } = this.#parts
    const cover = newCover()
    const removed: string[] = []
    let previous: string | undefined
    // One key behind the listing: the newest object stays, since the next one names it.
    for await (const { key } of objectStore.list(LOG_PREFIX, options)) {
      if (parseLogKey(key) === undefined) continue
      if (previous !== undefined) {
        // What comes after one that stays, stays too: so there are no gaps.
        if (!(await this.#mayGo(previous, cover, options))) break
        await objectStore.delete(previous, options)
        removed.push(previous)
      }
      previous = key
    }
    if (removed.length > 0) log.info({ removed: removed.length }, 'removed old log objects')
    return removed
  }

  async #mayGo(key: string, cover: Pick<VersionCover, 'covers'>, options: CallOptions): Promise<boolean> {
    const { historyMs, readManifest, clock, log } = this.#parts
    const { to, cells } = await readManifest(key, options)
    if (clock.now() - to <= historyMs) return false
    for (const cell of cells) {
      if (await cover.covers(cell, to, options)) continue
      log.warn(
        { cellId: cell.cell_id, key },
        'an old log object stays: no version of this cell holds what is in it',
      )
      return false
    }
    return true
  }
}
