import type { S3 } from '@aws-sdk/client-s3'
import type { CallDeadline } from '../call-deadline.ts'
import {
  type ListedObject,
  type ListedUpload,
  objectPage,
  type Page,
  type Received,
  received,
  uploadMarkers,
  uploadPage,
  wrongAnswer,
} from './s3-answers.ts'
import { s3ErrorName, s3Failure, s3Status } from './s3-failure.ts'
import { clientSettings, type S3Settings } from './s3-settings.ts'

/** The user metadata that names the put of an object. */
const PUT_ID = 'cellstore-put'
/** S3 may still accept parts that were on their way. So an upload is ended until S3 says that it is gone. */
const END_TRIES = 3

export interface StoredObject {
  /** Bytes. */
  size: number
  /** The id of the put that stored the object, if the endpoint kept it. */
  putId: string | undefined
}

/** Options of AWS's client for one request. */
interface RequestOptions {
  abortSignal: AbortSignal
  /** Milliseconds. */
  requestTimeout: number
}

/** Single requests to one bucket. Keys are relative to the store's prefix. Each request rejects with a `CellError`. */
export class S3Requests {
  readonly settings: S3Settings
  #client: S3 | undefined
  /** True once the bucket has answered. From then on, a 404 is about the object and not about the bucket. */
  #bucketAnswers = false

  constructor(settings: S3Settings) {
    this.settings = settings
  }

  async find(key: string, call: CallDeadline): Promise<StoredObject | undefined> {
    try {
      const answer = await this.ask(call, (s3, options) => s3.headObject(this.#at(key), options))
      if (answer.ContentLength === undefined) throw wrongAnswer('did not say how long an object is')
      return { size: answer.ContentLength, putId: answer.Metadata?.[PUT_ID] }
    } catch (error) {
      if (s3Status(error) !== 404) throw error
      await this.#requireBucket(call)
      return undefined
    }
  }

  async remove(key: string, call: CallDeadline): Promise<void> {
    try {
      await this.ask(call, (s3, options) => s3.deleteObject(this.#at(key), options))
    } catch (error) {
      if (s3ErrorName(error) !== 'NoSuchKey') throw error
    }
  }

  /**
   * Reads from `offset`, and at most `length` bytes (at least 1) if that is given.
   *
   * @returns `beyond` if the object has no byte at `offset`.
   */
  async read(
    key: string,
    offset: number,
    length: number | undefined,
    call: CallDeadline,
  ): Promise<Received | 'absent' | 'beyond'> {
    const end = length === undefined ? '' : Math.min(offset + length - 1, Number.MAX_SAFE_INTEGER)
    const range = offset === 0 && length === undefined ? {} : { Range: `bytes=${offset}-${end}` }
    try {
      const target = { ...this.#at(key), ...range }
      return received(await this.ask(call, (s3, options) => s3.getObject(target, options)), offset)
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
  ): Promise<Page<ListedObject>> {
    const input = {
      Bucket: this.settings.bucket,
      Prefix: this.settings.prefix + prefix,
      ContinuationToken: next,
      StartAfter: next === undefined && after !== '' ? this.settings.prefix + after : undefined,
    }
    const answer = await this.ask(call, (s3, options) => s3.listObjectsV2(input, options))
    return objectPage(answer, this.settings.prefix)
  }

  async uploads(prefix: string, next: string | undefined, call: CallDeadline): Promise<Page<ListedUpload>> {
    const [KeyMarker, UploadIdMarker] = uploadMarkers(next)
    const input = {
      Bucket: this.settings.bucket,
      Prefix: this.settings.prefix + prefix,
      KeyMarker,
      UploadIdMarker,
    }
    const answer = await this.ask(call, (s3, options) => s3.listMultipartUploads(input, options))
    return uploadPage(answer, this.settings.prefix)
  }

  /** @returns false if there is no such upload. */
  async endUpload(key: string, id: string, call: CallDeadline): Promise<boolean> {
    const upload = { ...this.#at(key), UploadId: id }
    for (let tries = 0; tries < END_TRIES; tries++) {
      try {
        await this.ask(call, (s3, options) => s3.abortMultipartUpload(upload, options))
      } catch (error) {
        if (s3Status(error) === 404) return tries > 0
        throw error
      }
    }
    return true
  }

  /** The common input of the requests that store an object. */
  putInput({ key, id, conditional }: { key: string; id: string; conditional: boolean }) {
    const condition = conditional ? { IfNoneMatch: '*' } : {}
    return { ...this.#at(key), Metadata: { [PUT_ID]: id }, ...condition }
  }

  /** Sends a request that carries `bytes` bytes. The client's own retries are within the call's time. */
  async ask<T>(
    call: CallDeadline,
    send: (s3: S3, options: RequestOptions) => Promise<T>,
    bytes = 0,
  ): Promise<T> {
    const { concurrency, patience } = this.settings
    // The parts of an object share the line.
    const bytesMs = Math.ceil((bytes * concurrency * 1000) / patience.slowestBytesPerSecond)
    try {
      const client = await this.client(call)
      call.signal.throwIfAborted()
      const options = { abortSignal: call.signal, requestTimeout: patience.requestMs + bytesMs }
      const answer = await call.race(send(client, options))
      this.#bucketAnswers = true
      return answer
    } catch (error) {
      throw call.signal.aborted ? call.signal.reason : s3Failure(error)
    }
  }

  /** AWS's client, made by the first request: a program that imports cellstore and uses no S3 does not load the SDK. */
  async client(call: CallDeadline): Promise<S3> {
    if (this.#client === undefined) {
      const { S3 } = await call.race(import('@aws-sdk/client-s3'))
      this.#client ??= new S3(clientSettings(this.settings))
    }
    return this.#client
  }

  /** Releases the connections. */
  close(): void {
    this.#client?.destroy()
  }

  /** An answer to HEAD has no body: a 404 does not say whether the object or the bucket is absent. */
  async #requireBucket(call: CallDeadline): Promise<void> {
    if (this.#bucketAnswers) return
    try {
      await this.ask(call, (s3, options) => s3.headBucket({ Bucket: this.settings.bucket }, options))
    } catch (error) {
      if (s3Status(error) === 404) throw s3Failure(Object.assign(new Error(), { name: 'NoSuchBucket' }))
      // Credentials without access to the bucket itself may still have access to its objects.
      if (s3Status(error) !== 403) throw error
    }
  }

  #at(key: string): { Bucket: string; Key: string } {
    return { Bucket: this.settings.bucket, Key: this.settings.prefix + key }
  }
}
