import { DefaultSerializer, deserialize } from 'node:v8'
import { fitsJson } from './json-fitness.ts'

/**
 * Messages between a node and its workers: a length in four bytes, one byte for the encoding, then the message. What is
 * small and JSON holds without loss goes as JSON, which is faster for the small messages that make up the traffic; all
 * else as the structured clone algorithm writes it, so that blobs and big integers arrive as they were. Both ends are
 * always of one build.
 */

const LENGTH_BYTES = 4
const HEAD_BYTES = LENGTH_BYTES + 1
const JSON_TEXT = 0
const CLONE = 1

/** A property that is `undefined` may arrive as none. */
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
  // In one buffer from the start: answers can be large.
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

/** Puts messages together again from a stream of bytes. */
export class MessageReader {
  readonly #onMessage: (message: unknown) => void
  #chunks: Buffer[] = []
  #length = 0
  /** Bytes that the message in front takes, its length included. */
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
      const start = at + LENGTH_BYTES
      const end = start + bytes.readUInt32LE(at)
      if (end > bytes.length) break
      at = end
      this.#onMessage(decode(bytes, start, end))
    }
    return at
  }

  #keep(rest: Buffer): void {
    this.#chunks = rest.length === 0 ? [] : [rest]
    this.#length = rest.length
    this.#wanted = LENGTH_BYTES + (rest.length >= LENGTH_BYTES ? rest.readUInt32LE(0) : 0)
  }
}
