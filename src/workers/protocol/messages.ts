import { DefaultSerializer, deserialize } from 'node:v8'
import { releaseBytes } from '../../base/release-bytes.ts'
import { fitsJson } from './json-fitness.ts'

/**
 * Messages between a node and its workers: four bytes of length, one byte for the encoding, then the message. Small
 * messages that JSON keeps unchanged go as JSON, which is faster; most messages are such. All others go as a structured
 * clone, which also keeps blobs and big integers. Both ends always come from the same build.
 */

const LENGTH_BYTES = 4
const HEAD_BYTES = LENGTH_BYTES + 1
const JSON_TEXT = 0
const CLONE = 1

/** A property that is `undefined` may be absent after decoding. */
export function encodeMessage(message: unknown): Buffer {
  return fitsJson(message) ? encodeText(JSON.stringify(message)) : encodeClone(message)
}

function encodeText(json: string): Buffer {
  const length = Buffer.byteLength(json)
  const message = Buffer.allocUnsafe(HEAD_BYTES + length)
  message.write(json, HEAD_BYTES)
  return withHead(message, JSON_TEXT)
}

function encodeClone(message: unknown): Buffer {
  const serializer = new DefaultSerializer()
  // The head goes into the same buffer: a copy of a large answer would cost.
  serializer.writeRawBytes(Buffer.alloc(HEAD_BYTES))
  serializer.writeHeader()
  serializer.writeValue(message)
  return withHead(serializer.releaseBuffer(), CLONE)
}

function withHead(message: Buffer, encoding: number): Buffer {
  message.writeUInt32LE(message.length - LENGTH_BYTES, 0)
  message[LENGTH_BYTES] = encoding
  return message
}

function decode(bytes: Buffer, start: number, end: number): unknown {
  const isText = bytes[start] === JSON_TEXT
  return isText
    ? JSON.parse(bytes.toString('utf8', start + 1, end))
    : deserialize(bytes.subarray(start + 1, end))
}

/** Reads messages from a stream of bytes. */
export class MessageReader {
  readonly #onMessage: (message: unknown) => void
  #chunks: Buffer[] = []
  #length = 0
  /** Size of the first message that is not complete, with its length field. */
  #wanted = LENGTH_BYTES

  constructor(onMessage: (message: unknown) => void) {
    this.#onMessage = onMessage
  }

  /** @param chunk is the reader's from here on @returns how many messages it completed */
  push(chunk: Buffer): number {
    this.#chunks.push(chunk)
    this.#length += chunk.length
    if (this.#length < this.#wanted) return 0
    const bytes = this.#chunks.length === 1 ? chunk : this.#join()
    const { end, count } = this.#take(bytes)
    this.#keep(bytes.subarray(end))
    return count
  }

  #join(): Buffer {
    const bytes = Buffer.concat(this.#chunks, this.#length)
    for (const chunk of this.#chunks) releaseBytes(chunk)
    return bytes
  }

  /** @returns where the messages that were read end */
  #take(bytes: Buffer): { end: number; count: number } {
    let at = 0
    let count = 0
    while (bytes.length - at >= LENGTH_BYTES) {
      const start = at + LENGTH_BYTES
      const end = start + bytes.readUInt32LE(at)
      if (end > bytes.length) break
      at = end
      this.#onMessage(decode(bytes, start, end))
      count++
    }
    return { end: at, count }
  }

  #keep(rest: Buffer): void {
    this.#chunks = rest.length === 0 ? [] : [rest]
    this.#length = rest.length
    this.#wanted = LENGTH_BYTES + (rest.length >= LENGTH_BYTES ? rest.readUInt32LE(0) : 0)
  }
}
