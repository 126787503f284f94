import { createHash, getFips } from 'node:crypto'
import { Readable } from 'node:stream'
import type { S3Client } from '@aws-sdk/client-s3'
import { isBytes } from '../../../base/any-realm.ts'
import { turnOfTheLoop } from '../../../base/clock.ts'
import { CellError } from '../../../errors.ts'
import { type CallDeadline, readBody, readPieces } from '../call-deadline.ts'
import { type ObjectBody, objectExists, type TransferOptions } from '../object-store.ts'
import { s3Failure } from './s3-failure.ts'
import type { S3Requests } from './s3-requests.ts'

/** Bytes that lib-storage gets at a time. It copies what it holds to cut a part; with small pieces it copies little twice. */
const PIECE_BYTES = 1024 * 1024
const PARTS_MAX = 10_000

/** One attempt to store an object. */
export interface PutAttempt {
  readonly key: string
  readonly body: ObjectBody
  /** Stored with the object. It tells this attempt's object from another writer's object of the same size. */
  readonly id: string
  /** Whether the endpoint is asked to refuse a key that is taken. */
  readonly conditional: boolean
  readonly onProgress?: TransferOptions['onProgress']
  readonly newDeadline: NewDeadline
  /** True from the moment before the one request that can make the object appear. */
  begun: boolean
}

/** A new time limit: a call's own, or the one to clean up after a call that has used up or lost its own. */
export type NewDeadline = (purpose: 'call' | 'clean-up') => CallDeadline

/** Sends an object's bytes, in parts if it is large. After a failure no part of it stays behind. */
export async function sendObject(
  requests: S3Requests,
  attempt: PutAttempt,
  call: CallDeadline,
): Promise<void> {
  const { body } = attempt
  if (body.size > requests.settings.partSizeBytes) return new MultipartUpload(requests, attempt, call).send()
  // A buffer and not a stream: it can be sent again, and its length is known.
  const Body = await readBody(body, 0, body.size, call)
  const checksum = await checksumOf(requests, Body)
  const input = { ...requests.putInput(attempt), ...checksum, Body, ContentLength: Body.length }
  attempt.begun = true
  await requests.ask(call, (s3, options) => s3.putObject(input, options), body.size)
  attempt.onProgress?.(body.size)
}

/** Sends an object in parts with lib-storage's `Upload`, which cuts and counts the parts. */
class MultipartUpload {
  readonly #requests: S3Requests
  readonly #attempt: PutAttempt
  readonly #call: CallDeadline
  /** True if a request to begin was repeated, or its answer was lost: there may be uploads whose ids nobody knows. */
  #mayHaveMore = false

  constructor(requests: S3Requests, attempt: PutAttempt, call: CallDeadline) {
    this.#requests = requests
    this.#attempt = attempt
    this.#call = call
  }

  async send(): Promise<void> {
    const { Upload } = await this.#call.race(import('@aws-sdk/lib-storage'))
    const client = await this.#client()
    const { partSizeBytes, concurrency } = this.#requests.settings
    const { body } = this.#attempt
    const pieces = Readable.from(readPieces(body, PIECE_BYTES, this.#call), { highWaterMark: 1 })
    pieces.on('error', () => {})
    const upload = new Upload({
      client,
      params: { ...this.#requests.putInput(this.#attempt), Body: pieces, ContentLength: body.size },
      partSize: Math.max(partSizeBytes, Math.ceil(body.size / PARTS_MAX)),
      queueSize: concurrency,
      // `Upload` would end an upload only once and hide the reason of the failure. `#end` does it thoroughly.
      leavePartsOnError: true,
    })
    upload.on('httpUploadProgress', ({ loaded = 0 }) => this.#attempt.onProgress?.(loaded))
    try {
      await upload.done()
      await this.#end(undefined)
    } catch (error) {
      await this.#end(upload.uploadId)
      this.#call.signal.throwIfAborted()
      throw error instanceof CellError ? error : s3Failure(error)
    } finally {
      pieces.destroy()
    }
  }

  /**
   * The client for `Upload`, with another `send`. `Upload` passes no signal and no timeout to its requests. And it relies
   * on the condition of its last request, which some endpoints ignore (Ceph), so that `send` looks at the key before it.
   */
  async #client(): Promise<S3Client> {
    const sdk = await import('@aws-sdk/client-s3')
    const client = await this.#requests.client(this.#call)
    const send = async (command: S3Command) => {
      const ask = (call: CallDeadline, bytes = 0) =>
        this.#requests.ask(call, (s3, options) => s3.send(command, options), bytes)
      if (command instanceof sdk.UploadPartCommand) {
        const { Body } = command.input
        if (isBytes(Body)) Object.assign(command.input, await checksumOf(this.#requests, Body))
        return ask(this.#call, bytesOf(Body))
      }
      if (command instanceof sdk.CompleteMultipartUploadCommand) {
        if ((await this.#requests.find(this.#attempt.key, this.#call)) !== undefined) throw objectExists()
        this.#attempt.begun = true
      }
      const begins = command instanceof sdk.CreateMultipartUploadCommand
      if (begins) this.#mayHaveMore = true
      // Only the answer says what to clean up. A request that gives up earlier may still take effect afterwards.
      using hearing = this.#attempt.newDeadline('clean-up')
      hearing.beginAfter(this.#call)
      const answer = await ask(hearing)
      if (begins) this.#mayHaveMore = answer.$metadata.attempts !== 1
      return answer
    }
    return Object.create(client, { send: { value: send } })
  }

  /** Ends the upload with this id, and uploads with unknown ids. `sweepUploads` ends the uploads that this cannot end. */
  async #end(id: string | undefined): Promise<void> {
    if (id === undefined && !this.#mayHaveMore) return
    const { key } = this.#attempt
    using call = this.#attempt.newDeadline('clean-up')
    try {
      if (id !== undefined) await this.#requests.endUpload(key, id, call)
      let next: string | undefined
      for (let more = this.#mayHaveMore; more; more = next !== undefined) {
        const page = await this.#requests.uploads(key, next, call)
        // Puts of one key take turns. So each upload of exactly this key comes from a request to begin of this put.
        for (const upload of page.items) {
          if (upload.key === key) await this.#requests.endUpload(key, upload.id, call)
        }
        next = page.next
      }
    } catch {
      // The failure that led here says more.
    }
  }
}

/** On Amazon's S3 the client adds a checksum itself. Others often refuse that one, but take `Content-MD5`. */
async function checksumOf({ settings }: S3Requests, bytes: Uint8Array): Promise<{ ContentMD5?: string }> {
  const md5 = settings.endpoint === undefined ? undefined : await contentMd5(bytes)
  return md5 === undefined ? {} : { ContentMD5: md5 }
}

function bytesOf(body: unknown): number {
  return isBytes(body) ? body.length : 0
}

type S3Command = Parameters<S3Client['send']>[0]

/** Hashed in one step, which takes about 0.4 ms. */
const SLICE_BYTES = 262_144

/**
 * The `Content-MD5` of a PUT: the one checksum that every S3 knows. A bucket with object lock refuses a PUT without one, and
 * any endpoint refuses bytes that changed on the way. Gives way to other work between the slices.
 *
 * @returns undefined where MD5 is not allowed (FIPS)
 */
async function contentMd5(bytes: Uint8Array): Promise<string | undefined> {
  if (getFips() === 1) return undefined
  const hash = createHash('md5')
  for (let at = 0; at < bytes.length; at += SLICE_BYTES) {
    if (at > 0) await turnOfTheLoop()
    hash.update(bytes.subarray(at, at + SLICE_BYTES))
  }
  return hash.digest('base64')
}
