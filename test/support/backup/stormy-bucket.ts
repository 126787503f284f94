import { randomUUID } from 'node:crypto'
import { S3ObjectStore } from '../../../src/backup/object-store/s3/s3-object-store.ts'
import type { S3ObjectStoreOptions } from '../../../src/backup/object-store/s3/s3-settings.ts'
import { CellError, type CellErrorCode } from '../../../src/errors.ts'
import type { Random } from '../random.ts'
import { FAULTS, type Fault, FaultProxy } from '../s3/fault-proxy.ts'
import type { LocalS3 } from '../s3/s3rver.ts'
import { until } from '../until.ts'

const PATIENCE = { deadlineMs: 4_000, connectMs: 500, requestMs: 400, idleMs: 400, attempts: 3 }
const ALL_FAULTS = Object.keys(FAULTS) as Fault[]
/** A start that is refused so often is tried again at a bucket that is well. */
const STARTS_MAX = 3

/** How every store may refuse with a bucket that fails: loudly. Any other error is a bug. */
const LOUD: readonly CellErrorCode[] = [
  'object_store_unavailable',
  'object_store_error',
  'object_store_mismatch',
  'store_not_found',
  'backup_corrupt',
  'cell_restoring',
  'busy',
]

/** A prefix of a bucket that fails in every way, while its storm wants that. */
export class StormyBucket {
  readonly random: Random
  /** Loud failures. */
  refused = 0
  readonly #proxy: FaultProxy
  readonly #options: S3ObjectStoreOptions
  readonly #rate: number
  readonly #loud = new Set(LOUD)

  private constructor(proxy: FaultProxy, endpoint: LocalS3, random: Random) {
    const { bucket, credentials } = endpoint
    this.#proxy = proxy
    this.#options = {
      bucket,
      credentials,
      endpoint: proxy.endpoint,
      prefix: `storm-${randomUUID()}`,
    }
    this.random = random
    this.#rate = 0.05 + random.below(30) / 100
  }

  static async begin(endpoint: LocalS3, random: Random): Promise<StormyBucket> {
    return new StormyBucket(await FaultProxy.start(endpoint.endpoint, random), endpoint, random)
  }

  /** How often each fault was injected. */
  get injected(): Record<string, number> {
    return Object.fromEntries(this.#proxy.injected)
  }

  get isWell(): boolean {
    return this.#proxy.rate === 0
  }

  /** For the store, which soon gives up. */
  objectStore(): S3ObjectStore {
    return new S3ObjectStore({ ...this.#options, patience: PATIENCE })
  }

  /** For the proof. */
  patientObjectStore(): S3ObjectStore {
    return new S3ObjectStore(this.#options)
  }

  /** Faults from now on. @returns which */
  rage(): string {
    this.#proxy.rate = this.#rate
    this.#proxy.faults = this.random.chance(0.3) ? [this.random.pick(ALL_FAULTS)] : ALL_FAULTS
    return this.#proxy.faults === ALL_FAULTS ? 'all' : String(this.#proxy.faults[0])
  }

  calm(): void {
    this.#proxy.rate = 0
  }

  /** Takes nothing meanwhile. */
  async refusing(work: () => Promise<void>): Promise<void> {
    await this.#during(1, ['refused'], work)
  }

  async calmly(work: () => Promise<void>): Promise<void> {
    await this.#during(0, [], work)
  }

  /** Whether an old listing has left out a key below a prefix, since {@link forgetHidden}. */
  hasHidden(prefix: string): boolean {
    return [...this.#proxy.hidden].some((key) => key.startsWith(`${this.#options.prefix}/${prefix}`))
  }

  forgetHidden(): void {
    this.#proxy.hidden.clear()
  }

  /** More codes with which a storm's store may refuse. */
  mayRefuseWith(...codes: CellErrorCode[]): void {
    for (const code of codes) this.#loud.add(code)
  }

  async loudly(work: () => Promise<void>): Promise<void> {
    try {
      await work()
    } catch (error) {
      this.#assertLoud(error)
    }
  }

  /** At a bucket that is well, and on a machine that may be so busy that calls are not answered in time. */
  async atLast(work: () => Promise<void>): Promise<void> {
    await until(async () => {
      const refused = this.refused
      await this.loudly(work)
      return this.refused === refused
    }, 'a bucket that is well is enough')
  }

  /** The bucket may refuse a start, loudly; a later one succeeds. */
  async untilOpen<T>(open: () => Promise<T>): Promise<T> {
    for (let start = 1; ; start++) {
      if (start > STARTS_MAX) this.calm()
      try {
        return await open()
      } catch (error) {
        if (start > 3 * STARTS_MAX) throw error
        this.#assertLoud(error)
      }
    }
  }

  stop(): Promise<void> {
    return this.#proxy.stop()
  }

  async #during(rate: number, faults: readonly Fault[], work: () => Promise<void>): Promise<void> {
    const before = { rate: this.#proxy.rate, faults: this.#proxy.faults }
    Object.assign(this.#proxy, { rate, faults })
    await work()
    Object.assign(this.#proxy, before)
  }

  #assertLoud(error: unknown): void {
    if (!(error instanceof CellError) || !this.#loud.has(error.code)) throw error
    this.refused++
  }
}
