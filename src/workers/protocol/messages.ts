import { deserialize, serialize } from 'node:v8'
import { releaseBytes } from '../../base/machine/release-bytes.ts'

/**
 * Messages between a node and its workers: four bytes of length, one byte for the encoding of the head, four bytes of its length, the
 * head, and then parts, each behind its length. Bodies of requests and answers are parts, which nobody reads on the way. A head
 * that JSON keeps unchanged is JSON, which is eight times as fast for small messages. Others are structured clones, which also
 * keep blobs and big integers. Both ends always come from the same build.
 */

const LENGTH_BYTES = 4
const HEAD_AT = 2 * LENGTH_BYTES + 1
const JSON_TEXT = 0
const CLONE = 1

/** Messages whose members are always what JSON keeps. Others have `isJson` set where theirs are. */
const JSON_TYPES: ReadonlySet<unknown> = new Set([
  'started',
  'overhead',
  'committed',
  'committing',
  'released',
  'unsynced',
  'done',
  'changed',
  'commit',
  'working',
  'ping',
  'pong',
])

/** Bytes of a message beside its head, to which the head refers by their places. */
export type Parts = readonly (Uint8Array | string)[]

/** A message as it is sent. */
export interface Envelope {
  message: unknown
  parts?: Parts | undefined
  /** JSON keeps the message unchanged. A property that is `undefined` may be absent after decoding. */
  isJson?: boolean | undefined
}

export function encodeMessage({ message, parts = [], isJson }: Envelope): Buffer {
  const { type } = message as { type?: unknown }
  const asJson = isJson ?? JSON_TYPES.has(type)
  const head = asJson ? JSON.stringify(message) : serialize(message)
  const headBytes = Buffer.byteLength(head)
  let length = HEAD_AT + headBytes
  for (const part of parts) length += LENGTH_BYTES + Buffer.byteLength(part)
  const bytes = Buffer.allocUnsafe(length)
  bytes.writeUInt32LE(length - LENGTH_BYTES, 0)
  bytes[LENGTH_BYTES] = asJson ? JSON_TEXT : CLONE
  bytes.writeUInt32LE(headBytes, LENGTH_BYTES + 1)
  put(bytes, head, HEAD_AT)
  let at = HEAD_AT + headBytes
  for (const part of parts) {
    const written = put(bytes, part, at + LENGTH_BYTES)
    bytes.writeUInt32LE(written, at)
    at += LENGTH_BYTES + written
  }
  return bytes
}

/** @returns how many bytes it takes */
function put(bytes: Buffer, part: Uint8Array | string, at: number): number {
  if (typeof part === 'string') return bytes.write(part, at)
  bytes.set(part, at)
  return part.length
}

/** @param start after the message's length */
function decode(bytes: Buffer, start: number, end: number): [message: unknown, parts: Buffer[]] {
  const headAt = start + 1 + LENGTH_BYTES
  const headEnd = headAt + bytes.readUInt32LE(start + 1)
  const isJson = bytes[start] === JSON_TEXT
  const message = isJson
    ? JSON.parse(bytes.toString('utf8', headAt, headEnd))
    : deserialize(bytes.subarray(headAt, headEnd))
  const parts: Buffer[] = []
  for (let at = headEnd; at < end; ) {
    const partEnd = at + LENGTH_BYTES + bytes.readUInt32LE(at)
    parts.push(bytes.subarray(at + LENGTH_BYTES, partEnd))
    at = partEnd
  }
  return [message, parts]
}

/** Reads messages from a stream of bytes. */
export class MessageReader {
  readonly #onMessage: (message: unknown, parts: Buffer[]) => void
  /** Room for the length of a message that has begun, and then for all of it. */
  #begun: Buffer = Buffer.alloc(LENGTH_BYTES)
  /** How much of it has come; 0: none has begun. */
  #length = 0

  constructor(onMessage: (message: unknown, parts: Buffer[]) => void) {
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
        this.#onMessage(...decode(chunk, at + LENGTH_BYTES, end))
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
    this.#onMessage(...decode(begun, LENGTH_BYTES, begun.length))
    return 1
  }
}

/** Where the message ends that begins there; undefined if not all of it is there. */
function endOf(bytes: Buffer, at: number): number | undefined {
  if (bytes.length - at < LENGTH_BYTES) return undefined
  const end = at + LENGTH_BYTES + bytes.readUInt32LE(at)
  return end <= bytes.length ? end : undefined
}
