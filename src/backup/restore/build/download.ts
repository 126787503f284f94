import { rest } from '../../../base/async/back-off.ts'
import type { Clock } from '../../../base/clock.ts'
import { isCellError } from '../../../errors.ts'
import type { ObjectReader } from '../../archive/object-reader.ts'
import type { Refetch } from '../../archive/zstd/seekable-zstd.ts'
import type { CallOptions } from '../../object-store/object-store.ts'

export interface DownloadProgress extends CallOptions {
  /** Called with the stored bytes read so far, and their total. */
  onProgress?: ((bytes: number, total: number) => void) | undefined
}

/** The objects of a chain as they are downloaded, one after the other, and how far that is. */
export class Download {
  readonly #reader: ObjectReader
  readonly #sizes: ReadonlyMap<string, number>
  readonly #progress: DownloadProgress
  readonly #refetches: Refetches
  readonly #total: number
  /** Bytes of the objects before the present one. */
  #before = 0
  #done = 0

  /**
   * @param sizes of all objects, in their order
   * @param furtherBytes what is read of further objects after them
   */
  constructor(
    reader: ObjectReader,
    sizes: ReadonlyMap<string, number>,
    furtherBytes: number,
    progress: DownloadProgress,
  ) {
    this.#reader = reader
    this.#sizes = sizes
    this.#progress = progress
    this.#refetches = new Refetches(reader.clock, progress.signal)
    this.#total = [...sizes.values()].reduce((total, size) => total + size, furtherBytes)
  }

  get total(): number {
    return this.#total
  }

  /** The next object. */
  open(version: string): Refetch {
    const before = this.#before
    const size = this.#sizes.get(version) ?? 0
    this.#before += size
    return {
      allow: (error, at) => this.#refetches.allow(error, `${version} ${at}`),
      from: (at) => this.#count(this.#reader.read(version, size, at, this.#progress), before + at),
    }
  }

  /** Parts of further objects have come. */
  received(bytes: number): void {
    this.#before += bytes
    this.#tell(this.#before)
  }

  /** @param at where the bytes are among those of all objects; a part that is fetched again counts once */
  async *#count(bytes: AsyncIterable<Uint8Array>, at: number): AsyncGenerator<Uint8Array> {
    const { signal } = this.#progress
    let end = at
    for await (const chunk of bytes) {
      signal?.throwIfAborted()
      this.#refetches.received()
      end += chunk.length
      this.#tell(end)
      yield chunk
    }
  }

  #tell(end: number): void {
    if (end <= this.#done) return
    this.#done = Math.min(end, this.#total)
    this.#progress.onProgress?.(this.#done, this.#total)
  }
}

/** What did not prove itself is fetched so often again from the same place. */
const DAMAGED_MAX = 1
/** After a connection broke off: an object store that starts again takes some seconds. */
const WAITS_MS = [500, 1_000, 2_000, 4_000]

/**
 * Decides whether a part of an archive is fetched again. Bytes that came damaged or too few may be right the next time, and
 * a connection that broke off may come back. An object store that has not given a byte yet is not waited for: its own
 * retries are over, and the caller can try elsewhere or later.
 */
class Refetches {
  readonly #clock: Clock
  readonly #signal: AbortSignal | undefined
  #hasReceived = false
  #place: string | undefined
  #damaged = 0
  #brokenOff = 0

  constructor(clock: Clock, signal: AbortSignal | undefined) {
    this.#clock = clock
    this.#signal = signal
  }

  /** Bytes have come. */
  received(): void {
    this.#hasReceived = true
  }

  /** @param place where the next try begins @returns whether there is one; resolves when it should begin */
  async allow(error: unknown, place: string): Promise<boolean> {
    if (place !== this.#place) {
      this.#place = place
      this.#damaged = 0
      this.#brokenOff = 0
    }
    if (this.#isCancelled()) return false
    if (isCellError(error, 'backup_corrupt')) return this.#damaged++ < DAMAGED_MAX
    if (!isCellError(error, 'object_store_unavailable') || !this.#hasReceived) return false
    const waitMs = WAITS_MS[this.#brokenOff++]
    if (waitMs === undefined) return false
    await rest(this.#clock, waitMs, this.#signal, { keepsAlive: true })
    return !this.#isCancelled()
  }

  #isCancelled(): boolean {
    return this.#signal?.aborted === true
  }
}
