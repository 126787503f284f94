import type { Clock } from '../../base/clock.ts'
import { quotaExceeded } from '../../catalog/account-quotas.ts'
import type { RequestedBackups } from '../../catalog/requested-backups.ts'
import type { CellService } from '../../service/cell-service.ts'

/** An account over its quota has this many cells counted again with each request. */
const CHECKED_CELLS = 4

/**
 * Bounds the backups that an account has requested and that are kept. Retention removes versions without a word to this
 * part: the object store is asked what is left once an account has its quota, a few cells at a time.
 */
export class KeptBackups {
  readonly #max: number
  readonly #requested: RequestedBackups
  readonly #service: Pick<CellService, 'backups'>
  readonly #clock: Clock
  /** By cell, while its backups are made or counted. */
  readonly #made = new Map<string, MadeBackups>()

  constructor(max: number, requested: RequestedBackups, service: Pick<CellService, 'backups'>, clock: Clock) {
    this.#max = max
    this.#requested = requested
    this.#service = service
    this.#clock = clock
  }

  /** Runs a backup, and counts it if it succeeds. @throws `quota_exceeded` */
  async run<T>(accountId: string, cellId: string, backup: () => Promise<T>): Promise<T> {
    if (this.#requested.of(accountId) >= this.#max) await this.#recount(accountId, cellId)
    const usage = this.#requested.of(accountId)
    if (usage >= this.#max) {
      const has = `The account has requested ${usage} ${usage === 1 ? 'backup that is' : 'backups that are'} kept`
      throw quotaExceeded('backupsMax', has, this.#max, usage)
    }
    // Before it is made: several can be under way.
    this.#requested.add(accountId, cellId, 1)
    return await this.#during(cellId, async (made) => {
      made.begun++
      try {
        return await backup()
      } catch (error) {
        this.#takeBack(accountId, cellId)
        throw error
      } finally {
        made.ended++
      }
    })
  }

  /** Never throws: what is counted too much on a full disk, the next count finds. */
  #takeBack(accountId: string, cellId: string): void {
    try {
      this.#requested.add(accountId, cellId, -1)
    } catch {
      // The backup's own error is the one that counts.
    }
  }

  async #recount(accountId: string, cellId: string): Promise<void> {
    const others = this.#requested.leastRecentlyChecked(accountId, CHECKED_CELLS)
    for (const each of new Set([cellId, ...others])) {
      await this.#during(each, async (made) => {
        const endedBefore = made.ended
        const stored = await this.#service.backups.countRequested(each)
        // The listing may lack those that had not ended before it.
        this.#requested.lower(each, stored + made.begun - endedBefore, this.#clock.now())
      })
    }
  }

  async #during<T>(cellId: string, work: (made: MadeBackups) => Promise<T>): Promise<T> {
    const made = this.#made.get(cellId) ?? { begun: 0, ended: 0, users: 0 }
    this.#made.set(cellId, made)
    made.users++
    try {
      return await work(made)
    } finally {
      if (--made.users === 0) this.#made.delete(cellId)
    }
  }
}

/** What was requested of a cell since somebody has been at work on it. */
interface MadeBackups {
  begun: number
  ended: number
  users: number
}
