import type { ObjectReader } from '../../archive/object-reader.ts'
import { Refetches } from '../../archive/refetches.ts'
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
