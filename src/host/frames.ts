import { DefaultSerializer, deserialize } from 'node:v8'

/**
 * Messages between a node and its hosts: a length in four bytes, then the value as the structured clone algorithm writes
 * it, so that blobs, big integers and `undefined` arrive as they were. Both ends are always of one build.
 */

const LENGTH_BYTES = 4

export function encodeFrame(message: unknown): Buffer {
  const serializer = new DefaultSerializer()
  // In one buffer from the start: answers can be large.
  serializer.writeRawBytes(Buffer.alloc(LENGTH_BYTES))
  serializer.writeHeader()
  serializer.writeValue(message)
  const frame = serializer.releaseBuffer()
  frame.writeUInt32LE(frame.length - LENGTH_BYTES, 0)
  return frame
}

/** Puts messages together again from a stream of bytes. */
export class FrameReader {
  readonly #onMessage: (message: unknown) => void
  #chunks: Buffer[] = []
  #length = 0
  /** Bytes that the frame in front takes, its length included. */
  #wanted = LENGTH_BYTES

  constructor(onMessage: (message: unknown) => void) {
    this.#onMessage = onMessage
  }

  push(chunk: Buffer): void {
    this.#chunks.push(chunk)
    this.#length += chunk.length
    if (this.#length < this.#wanted) return
    const bytes = this.#chunks.length === 1 ? chunk : Buffer.concat(this.#chunks, this.#length)
    this.#keep(bytes.subarray(this.#take(bytes)))
  }

  /** @returns how many bytes were used up */
  #take(bytes: Buffer): number {
    let at = 0
    while (bytes.length - at >= LENGTH_BYTES) {
      const end = at + LENGTH_BYTES + bytes.readUInt32LE(at)
      if (end > bytes.length) break
      const body = bytes.subarray(at + LENGTH_BYTES, end)
      at = end
      this.#onMessage(deserialize(body))
    }
    return at
  }

  #keep(rest: Buffer): void {
    this.#chunks = rest.length === 0 ? [] : [rest]
    this.#length = rest.length
    this.#wanted = LENGTH_BYTES + (rest.length >= LENGTH_BYTES ? rest.readUInt32LE(0) : 0)
  }
}
