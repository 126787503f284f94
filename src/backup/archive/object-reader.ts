import type { Clock } from '../../base/clock.ts'
import type { CellError } from '../../errors.ts'
import type { ByteRange, CallOptions, ObjectStore } from '../object-store/object-store.ts'
import { corrupt } from './backup-errors.ts'
import { allocateBlock, release } from './zstd/block-memory.ts'

/** A smaller object, or rest of one, is read with one request. */
export const RANGE_BYTES = 8 * 1_048_576
/** Ranges of an object that are received before they are needed. */
const AHEAD_MAX = 3
/** Memory for all of these, of all objects that are read at the same time. */
const AHEAD_BYTES_MAX = 4 * RANGE_BYTES

/**
 * Reads objects in order. A large one comes in ranges, several at a time: a connection gives only part of what an object
 * store has to give, and each request waits for its answer. The range that is needed next takes no memory, so that every
 * reading goes on; further ones are received while there is memory for them.
 */
export class ObjectReader {
  readonly clock: Clock
  readonly #objectStore: ObjectStore
  #aheadBytes = 0
  #readings = 0
  /**
   * Memory of ranges that were read, kept while anything is: a collector that sees so much memory come and go runs all the time,
   * which took a sixth of a restore's processor time.
   */
  readonly #unused: Buffer[] = []

  constructor(objectStore: ObjectStore, clock: Clock) {
    this.#objectStore = objectStore
    this.clock = clock
  }

  /** Bytes of memory that are used for ranges. */
  get aheadBytes(): number {
    return this.#aheadBytes
  }

  /** @returns an object's bytes @throws `backup_corrupt` if there is no such object */
  async size(key: string, options: CallOptions): Promise<number> {
    const found = await this.#objectStore.head(key, options)
    if (found === undefined) throw missing(key)
    return found.size
  }

  /**
   * The bytes of an object from `offset` to its end at `size`. A chunk's memory may be used again once the reader asks for
   * the next one. It ends early if the object store sends fewer bytes: what they mean shows where they end.
   *
   * @throws `backup_corrupt` if there is no such object; what the object store throws
   */
  async *read(
    key: string,
    size: number,
    offset: number,
    { signal }: CallOptions,
  ): AsyncGenerator<Uint8Array> {
    const ahead: RangeAhead[] = []
    let received: RangeAhead | undefined
    let next = offset
    const take = (): ByteRange => {
      const range = { offset: next, length: Math.min(RANGE_BYTES, size - next) }
      next += range.length
      return range
    }
    this.#readings++
    try {
      do {
        received = ahead.shift()
        const range = received?.range ?? take()
        const isWhole = range.length === size
        const bytes = received?.bytes() ?? this.#receive(key, isWhole ? undefined : range, signal)
        while (next < size && ahead.length < AHEAD_MAX && this.#aheadBytes + RANGE_BYTES <= AHEAD_BYTES_MAX)
          ahead.push(this.#receiveAhead(key, take(), signal))
        let length = 0
        for await (const chunk of bytes) {
          length += chunk.length
          yield chunk
        }
        if (length < range.length) return
      } while (ahead.length > 0 || next < size)
    } finally {
      await Promise.all([received, ...ahead].map((each) => each?.close()))
      this.#readings--
      if (this.#readings === 0) for (const memory of this.#unused.splice(0)) release(memory)
    }
  }

  #receiveAhead(key: string, range: ByteRange, signal: AbortSignal | undefined): RangeAhead {
    const open = (ended: AbortSignal) =>
      this.#receive(key, range, signal === undefined ? ended : AbortSignal.any([signal, ended]))
    const memory = this.#unused.pop() ?? allocateBlock(RANGE_BYTES)
    const ahead = new RangeAhead(range, memory, open, () => {
      this.#unused.push(memory)
      this.#aheadBytes -= memory.length
    })
    this.#aheadBytes += memory.length
    return ahead
  }

  async *#receive(
    key: string,
    range: ByteRange | undefined,
    signal: AbortSignal | undefined,
  ): AsyncGenerator<Uint8Array> {
    const content = await this.#objectStore.get(key, { signal, reusesMemory: true, range })
    if (content === undefined) throw missing(key)
    yield* content.body
  }
}

function missing(version: string): CellError {
  return corrupt(version, 'this backup is part of the chain, but it is missing')
}

/** A range of an object that is received into memory before it is needed. */
class RangeAhead {
  readonly range: ByteRange
  readonly #memory: Buffer
  readonly #abort = new AbortController()
  readonly #reception: Promise<void>
  readonly #onClose: () => void
  #received = 0
  #closed: Promise<void> | undefined
  #hasEnded = false
  #failure: { error: unknown } | undefined
  #news = Promise.withResolvers<void>()

  /**
   * @param memory of at least the range's length
   * @param open starts to receive the range, until the signal aborts
   * @param onClose called once it no longer uses the memory
   */
  constructor(
    range: ByteRange,
    memory: Buffer,
    open: (ended: AbortSignal) => AsyncIterable<Uint8Array>,
    onClose: () => void,
  ) {
    this.range = range
    this.#memory = memory
    this.#onClose = onClose
    this.#reception = this.#receive(open(this.#abort.signal))
  }

  /** Its bytes, as they come, once. Then its memory is free. @throws what ended them early */
  async *bytes(): AsyncGenerator<Uint8Array> {
    try {
      for (let at = 0; ; ) {
        if (at < this.#received) {
          const part = this.#memory.subarray(at, this.#received)
          at = this.#received
          yield part
        } else if (this.#failure !== undefined) throw this.#failure.error
        else if (this.#hasEnded) return
        else await this.#news.promise
      }
    } finally {
      await this.close()
    }
  }

  /** Stops it, and frees its memory. Repeats change nothing. */
  close(): Promise<void> {
    this.#closed ??= this.#close()
    return this.#closed
  }

  async #close(): Promise<void> {
    this.#abort.abort()
    await this.#reception
    this.#onClose()
  }

  async #receive(source: AsyncIterable<Uint8Array>): Promise<void> {
    try {
      for await (const chunk of source) {
        const part = chunk.subarray(0, this.range.length - this.#received)
        this.#memory.set(part, this.#received)
        this.#received += part.length
        this.#tell()
      }
    } catch (error) {
      this.#failure = { error }
    }
    this.#hasEnded = true
    this.#tell()
  }

  #tell(): void {
    this.#news.resolve()
    this.#news = Promise.withResolvers()
  }
}
