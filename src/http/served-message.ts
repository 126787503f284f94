import { IncomingMessage } from 'node:http'
import { setImmediate } from '../base/clock.ts'
import { OWNS_BODY, type OwnedBody } from './body-owner.ts'
import { CHUNK_COST, type ReadCosts } from './read-costs.ts'

/** Longer chunks of a body are handed on as they are. */
const SMALL_BYTES = 1_024
/** Small chunks are charged by so many, and what is left of them at the end of a read. After so many of a read no more is read at once. */
export const CHARGED_CHUNKS = 256
const MERGED_BYTES_MIN = 4_096

/** @returns the class of the requests of a server */
export function servedMessage(costs: ReadCosts): typeof IncomingMessage {
  return class extends ServedMessage {
    override get costs(): ReadCosts {
      return costs
    }
  }
}

/**
 * A request of our own server alone: see {@link OWNS_BODY}. Small chunks of a body that came with one read are handed on as one
 * piece: Node.js makes a Buffer of each, and the 10,000 that a read can hold would take 5 MB. They are charged.
 */
abstract class ServedMessage extends IncomingMessage implements OwnedBody {
  #merged: Buffer | undefined
  #mergedBytes = 0
  /** Small chunks of this read. */
  #chunks = 0
  #isRead = true

  abstract get costs(): ReadCosts

  get [OWNS_BODY](): true {
    return true
  }

  /** Node.js calls it with each chunk. If it returns false, no more is read until more is asked for. */
  override push(chunk: Buffer | null, encoding?: BufferEncoding): boolean {
    if (chunk === null || chunk.length >= SMALL_BYTES || this.headers['transfer-encoding'] === undefined) {
      this.#handOn()
      return super.push(chunk, encoding) && this.#isRead
    }
    if (this.#chunks === 0) setImmediate(() => this.#endRead())
    this.#merge(chunk)
    if (++this.#chunks % CHARGED_CHUNKS === 0) this.#charge(CHARGED_CHUNKS)
    const unread = this.readableLength + this.#mergedBytes
    return this.#isRead && this.#chunks < CHARGED_CHUNKS && unread < this.readableHighWaterMark
  }

  stopReading(): void {
    this.#isRead = false
  }

  readOn(): void {
    this.#isRead = true
    super._read(0)
  }

  /** Node.js calls it whenever the stream has room, so that more is read of the connection. */
  override _read(size: number): void {
    if (this.#isRead) super._read(size)
  }

  #charge(chunks: number): void {
    this.costs.charge(this.socket, chunks * CHUNK_COST)
  }

  #endRead(): void {
    this.#charge(this.#chunks % CHARGED_CHUNKS)
    this.#chunks = 0
    this.#handOn()
  }

  #merge(chunk: Buffer): void {
    const end = this.#mergedBytes + chunk.length
    if (this.#merged === undefined || end > this.#merged.length) {
      const grown = Buffer.allocUnsafe(Math.max(MERGED_BYTES_MIN, 2 * end))
      this.#merged?.copy(grown, 0, 0, this.#mergedBytes)
      this.#merged = grown
    }
    this.#merged.set(chunk, this.#mergedBytes)
    this.#mergedBytes = end
  }

  #handOn(): void {
    if (this.#merged === undefined) return
    // No more memory than it has bytes: it may wait for long until somebody reads it.
    const bytes = Buffer.from(this.#merged.subarray(0, this.#mergedBytes))
    this.#merged = undefined
    this.#mergedBytes = 0
    super.push(bytes)
  }
}
