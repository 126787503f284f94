import { corrupt } from '../../archive/backup-errors.ts'
import { RANGE_BYTES } from '../../archive/object-reader.ts'
import { type RestoreTaskRunner, SOUND } from '../threads/restore-task.ts'
import type { ArchivePlace } from './archive-place.ts'

/**
 * The objects that a thread unpacks in one go. A smaller one is mostly a database that needs no thread. A larger one is
 * streamed: then its parts are decompressed, written and hashed side by side.
 */
export const UNPACKED_BYTES = { min: 2 * 1_048_576, max: RANGE_BYTES }

/**
 * An archive in memory that is shared with a thread. Block by block, each step costs a message between threads and memory that
 * the collector counts: for 100 cells of 6 MB that was more than half of the archiver's processor time, measured.
 */
export class ReceivedArchive {
  readonly #bytes: Buffer
  readonly #failure: { error: unknown } | undefined

  private constructor(bytes: Buffer, failure: { error: unknown } | undefined) {
    this.#bytes = bytes
    this.#failure = failure
  }

  static async receive(source: AsyncIterable<Uint8Array>, memory: Buffer): Promise<ReceivedArchive> {
    let length = 0
    try {
      for await (const chunk of source) {
        if (length + chunk.length > memory.length) throw corrupt('archive', 'it is longer than it was')
        memory.set(chunk, length)
        length += chunk.length
      }
    } catch (error) {
      return new ReceivedArchive(memory.subarray(0, length), { error })
    }
    return new ReceivedArchive(memory.subarray(0, length), undefined)
  }

  /** All of it has come. */
  get isWhole(): boolean {
    return this.#failure === undefined
  }

  /** @returns undefined if it is not applied, for whatever reason: reading it {@link again} shows which */
  async unpack(thread: RestoreTaskRunner, place: ArchivePlace): Promise<{ isSound: boolean } | undefined> {
    try {
      const result = await thread.run({ kind: 'unpack', bytes: this.#bytes.length, place })
      return { isSound: result === SOUND }
    } catch {
      return undefined
    }
  }

  /** The bytes that have come, and then what ended them early. */
  async *again(): AsyncGenerator<Uint8Array> {
    yield this.#bytes
    if (this.#failure !== undefined) throw this.#failure.error
  }
}
