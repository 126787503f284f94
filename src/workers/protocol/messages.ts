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
  /** Room for the length of a message that has begun, and then for all of it. */
  #begun: Buffer = Buffer.alloc(LENGTH_BYTES)
  /** How much of it has come; 0: none has begun. */
  #length = 0

  constructor(onMessage: (message: unknown) => void) {
    this.#onMessage = onMessage
  }

  /**
   * @param chunk is the reader's from here on: messages may use its memory
   * @returns how many messages it completed
   */
  push(chunk: Buffer): number {
    let count = 0
    let isUsed = false
    for (let at = 0; at < chunk.length; ) {
      const end = this.#length === 0 ? endOf(chunk, at) : undefined
      if (end === undefined) {
        const copied = chunk.copy(this.#begun, this.#length, at)
        at += copied
        count += this.#came(copied)
      } else {
        // Most messages come whole.
        this.#onMessage(decode(chunk, at + LENGTH_BYTES, end))
        isUsed = true
        at = end
        count++
      }
    }
    if (!isUsed) releaseBytes(chunk)
    return count
  }

  /** More of a message has come. A long one takes its memory at once and fills it bit by bit. @returns how many it completed */
  #came(bytes: number): number {
    this.#length += bytes
    const begun = this.#begun
    if (this.#length < begun.length) return 0
    if (this.#length === LENGTH_BYTES) {
      const length = begun.readUInt32LE(0)
      if (length === 0) throw new Error('A message of no bytes has come: the other process is broken.')
      this.#begun = Buffer.allocUnsafe(LENGTH_BYTES + length)
      begun.copy(this.#begun)
      return 0
    }
    this.#begun = Buffer.alloc(LENGTH_BYTES)
    this.#length = 0
    this.#onMessage(decode(begun, LENGTH_BYTES, begun.length))
    return 1
  }
}

/** Where the message ends that begins there; undefined if not all of it is there. */
function endOf(bytes: Buffer, at: number): number | undefined {
  if (bytes.length - at < LENGTH_BYTES) return undefined
  const end = at + LENGTH_BYTES + bytes.readUInt32LE(at)
  return end <= bytes.length ? end : undefined
}
