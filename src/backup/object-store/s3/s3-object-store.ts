import { Readable } from 'node:stream'
import {
  AbortMultipartUploadCommand,
  CompleteMultipartUploadCommand,
  CreateMultipartUploadCommand,
  DeleteObjectCommand,
  GetObjectCommand,
  HeadBucketCommand,
  HeadObjectCommand,
  ListMultipartUploadsCommand,
  ListObjectsV2Command,
  PutObjectCommand,
  S3Client,
  UploadPartCommand,
} from '@aws-sdk/client-s3'
import { Upload } from '@aws-sdk/lib-storage'
import { CellError } from '../../../errors.ts'
import type { CallDeadline } from '../call-deadline.ts'
import type { ObjectBody } from '../object-store.ts'
import { readBody, readPieces } from '../read-body.ts'
import { alreadyThere, type PutAttempt, type StoredObject } from './create-only-puts.ts'
import { MultipartUpload } from './multipart-upload.ts'
import {
  type Page,
  type Received,
  type RemoteObject,
  RemoteObjectStore,
  type RemoteRequests,
  type RemoteUpload,
} from './remote-object-store.ts'
import { objectPage, received, uploadMarkers, uploadPage, wrongAnswer } from './s3-answers.ts'
import { s3ErrorName, s3Failure, s3Status } from './s3-failure.ts'
import {
  clientSettings,
  type S3ObjectStoreOptions,
  type S3Settings,
  s3Settings,
  s3Url,
} from './s3-settings.ts'

/** User metadata that says which attempt stored an object. */
const PUT_ID = 'cellstore-put'
/** Bytes handed to lib-storage at a time: it copies what it holds to cut a part, and small pieces copy little twice. */
const PIECE_BYTES = 1024 * 1024
const PARTS_MAX = 10_000
/** S3 may still take in parts that were on their way, so an upload is ended until it is said to be gone. */
const END_TRIES = 3

/** An object store in a bucket of S3, or of what speaks like it. This file alone knows Amazon's client. */
export class S3ObjectStore extends RemoteObjectStore {
  /** @throws `invalid_setting` */
  constructor(options: S3ObjectStoreOptions) {
    const settings = s3Settings(options)
    super(s3Url(settings), new S3Requests(settings), settings.patience, settings.clock)
  }
}

class S3Requests implements RemoteRequests {
  readonly #settings: S3Settings
  readonly #client: S3Client
  /** True once the bucket has answered: from then on an absent object is no absent bucket. */
  #bucketAnswers = false

  constructor(settings: S3Settings) {
    this.#settings = settings
    this.#client = new S3Client(clientSettings(settings))
  }

  async find(key: string, call: CallDeadline): Promise<StoredObject | undefined> {
    try {
      const command = new HeadObjectCommand(this.#at(key))
      const answer = await this.#ask(call, (options) => this.#client.send(command, options))
      if (answer.ContentLength === undefined) throw wrongAnswer('does not say how long an object is')
      return { size: answer.ContentLength, putId: answer.Metadata?.[PUT_ID] }
    } catch (error) {
      if (s3Status(error) !== 404) throw error
      await this.#requireBucket(call)
      return undefined
    }
  }

  async remove(key: string, call: CallDeadline): Promise<void> {
    try {
      const command = new DeleteObjectCommand(this.#at(key))
      await this.#ask(call, (options) => this.#client.send(command, options))
    } catch (error) {
      if (s3ErrorName(error) !== 'NoSuchKey') throw error
    }
  }

  async read(
    key: string,
    offset: number,
    length: number | undefined,
    call: CallDeadline,
  ): Promise<Received | 'absent' | 'beyond'> {
    const end = length === undefined ? '' : Math.min(offset + length - 1, Number.MAX_SAFE_INTEGER)
    const range = offset === 0 && length === undefined ? {} : { Range: `bytes=${offset}-${end}` }
    try {
      const command = new GetObjectCommand({ ...this.#at(key), ...range })
      return received(await this.#ask(call, (options) => this.#client.send(command, options)), offset)
    } catch (error) {
      if (s3ErrorName(error) === 'NoSuchKey') return 'absent'
      if (s3Status(error) === 416) return 'beyond'
      throw error
    }
  }

  async objects(
    prefix: string,
    after: string,
    next: string | undefined,
    call: CallDeadline,
  ): Promise<Page<RemoteObject>> {
    const command = new ListObjectsV2Command({
      Bucket: this.#settings.bucket,
      Prefix: this.#settings.prefix + prefix,
      ContinuationToken: next,
      StartAfter: next === undefined && after !== '' ? this.#settings.prefix + after : undefined,
    })
    const answer = await this.#ask(call, (options) => this.#client.send(command, options))
    return objectPage(answer, this.#settings.prefix)
  }

  async uploads(prefix: string, next: string | undefined, call: CallDeadline): Promise<Page<RemoteUpload>> {
    const [KeyMarker, UploadIdMarker] = uploadMarkers(next)
    const command = new ListMultipartUploadsCommand({
      Bucket: this.#settings.bucket,
      Prefix: this.#settings.prefix + prefix,
      KeyMarker,
      UploadIdMarker,
    })
    const answer = await this.#ask(call, (options) => this.#client.send(command, options))
    return uploadPage(answer, this.#settings.prefix)
  }

  async endUpload(key: string, id: string, call: CallDeadline): Promise<boolean> {
    for (let tries = 0; tries < END_TRIES; tries++) {
      try {
        const command = new AbortMultipartUploadCommand({ ...this.#at(key), UploadId: id })
        await this.#ask(call, (options) => this.#client.send(command, options))
      } catch (error) {
        if (s3Status(error) === 404) return tries > 0
        throw error
      }
    }
    return true
  }

  async send(key: string, body: ObjectBody, attempt: PutAttempt, call: CallDeadline): Promise<void> {
    const params = {
      ...this.#at(key),
      Metadata: { [PUT_ID]: attempt.id },
      ...(attempt.conditional ? { IfNoneMatch: '*' } : {}),
    }
    if (body.size > this.#settings.partSizeBytes) {
      await this.#sendParts(key, params, body, attempt, call)
      return
    }
    // A buffer, never a stream: it can be sent again, and its length is known.
    const Body = await readBody(body, 0, body.size, call)
    attempt.begun = true
    const command = new PutObjectCommand({ ...params, Body, ContentLength: Body.length })
    await this.#ask(call, (options) => this.#client.send(command, options), body.size)
    attempt.onProgress?.(body.size)
  }

  destroy(): void {
    this.#client.destroy()
  }

  async #sendParts(
    key: string,
    params: { Bucket: string; Key: string },
    body: ObjectBody,
    attempt: PutAttempt,
    call: CallDeadline,
  ): Promise<void> {
    const { partSizeBytes, concurrency } = this.#settings
    const pieces = Readable.from(readPieces(body, PIECE_BYTES, call), { highWaterMark: 1 }).on(
      'error',
      () => {},
    )
    const begun = new MultipartUpload()
    const upload = new Upload({
      client: this.#uploadingClient(key, attempt, begun, call),
      params: { ...params, Body: pieces, ContentLength: body.size },
      partSize: Math.max(partSizeBytes, Math.ceil(body.size / PARTS_MAX)),
      queueSize: concurrency,
      // It would end an upload once and hide why; MultipartUpload does it thoroughly.
      leavePartsOnError: true,
    })
    try {
      await upload.done()
      begun.completed()
      await begun.end(key, this, attempt)
    } catch (error) {
      await begun.end(key, this, attempt)
      call.signal.throwIfAborted()
      throw error instanceof CellError ? error : s3Failure(error)
    } finally {
      pieces.destroy()
    }
  }

  /**
   * The client as lib-storage is to see it. It hands no signal to its requests, keeps the upload's id to itself, and
   * passes the condition on to the last request, where Ceph, for one, does not look at it.
   */
  #uploadingClient(key: string, attempt: PutAttempt, begun: MultipartUpload, call: CallDeadline): S3Client {
    let stored = 0
    const send = async (command: S3Command) => {
      if (command instanceof CompleteMultipartUploadCommand) {
        if ((await this.find(key, call)) !== undefined) throw alreadyThere()
        attempt.begun = true
      }
      if (command instanceof CreateMultipartUploadCommand) begun.asked()
      const bytes = command instanceof UploadPartCommand ? partBytes(command) : 0
      // Only the answer says what there is to clear up: given up, such a request may show what it made afterwards.
      using hearing = bytes > 0 ? undefined : attempt.allowance('clean-up')
      hearing?.beginAfter(call)
      const ask = (options: RequestOptions) => this.#client.send(command, options)
      const answer = await this.#ask(hearing ?? call, ask, bytes)
      if ('UploadId' in answer) begun.answered(answer.UploadId, answer.$metadata.attempts)
      stored += bytes
      if (bytes > 0) attempt.onProgress?.(stored)
      return answer
    }
    return new Proxy(this.#client, {
      get: (client, property) => (property === 'send' ? send : Reflect.get(client, property)),
    })
  }

  /** Sends a request of so many bytes, with the client's own retries, within the call's time. Rejects with a `CellError`. */
  async #ask<T>(call: CallDeadline, send: (options: RequestOptions) => Promise<T>, bytes = 0): Promise<T> {
    const { requestMs, slowestBytesPerSecond } = this.#settings.patience
    // The parts of an object share the line.
    const bytesMs = Math.ceil((bytes * this.#settings.concurrency * 1000) / slowestBytesPerSecond)
    try {
      call.signal.throwIfAborted()
      const answer = await call.race(send({ abortSignal: call.signal, requestTimeout: requestMs + bytesMs }))
      this.#bucketAnswers = true
      return answer
    } catch (error) {
      throw call.signal.aborted ? call.signal.reason : s3Failure(error)
    }
  }

  /** An answer to HEAD has no body, so one about an absent bucket looks like one about an absent object. */
  async #requireBucket(call: CallDeadline): Promise<void> {
    if (this.#bucketAnswers) return
    try {
      const command = new HeadBucketCommand({ Bucket: this.#settings.bucket })
      await this.#ask(call, (options) => this.#client.send(command, options))
    } catch (error) {
      if (s3Status(error) === 404) throw s3Failure(Object.assign(new Error(), { name: 'NoSuchBucket' }))
      // Credentials that may not look at the bucket may still be good for its objects.
      if (s3Status(error) !== 403) throw error
    }
  }

  #at(key: string): { Bucket: string; Key: string } {
    return { Bucket: this.#settings.bucket, Key: this.#settings.prefix + key }
  }
}

function partBytes({ input }: UploadPartCommand): number {
  return input.Body instanceof Uint8Array ? input.Body.length : 0
}

interface RequestOptions {
  abortSignal: AbortSignal
  /** Milliseconds. */
  requestTimeout: number
}

type S3Command = Parameters<S3Client['send']>[0]
