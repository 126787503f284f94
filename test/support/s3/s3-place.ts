import { randomUUID } from 'node:crypto'
import {
  CompleteMultipartUploadCommand,
  CreateBucketCommand,
  CreateMultipartUploadCommand,
  HeadBucketCommand,
  ListMultipartUploadsCommand,
  PutObjectCommand,
  S3Client,
  UploadPartCommand,
} from '@aws-sdk/client-s3'
import { S3ObjectStore } from '../../../src/backup/object-store/s3/s3-object-store.ts'
import type { S3ObjectStoreOptions } from '../../../src/backup/object-store/s3/s3-settings.ts'
import type { StoreUnderTest } from '../../backup/object-store/object-store-under-test.ts'
import { collectAll } from './object-store-checks.ts'

const PARALLEL_DELETES = 16

/** What an endpoint can do beyond storing, found out by trying. */
export interface Abilities {
  conditionalPuts: boolean
  conditionalCompletion: boolean
  listsUploads: boolean
}

/** A bucket that tests share, each under a prefix of its own. */
export class S3Place {
  readonly #options: S3ObjectStoreOptions
  readonly #client: S3Client

  constructor(options: S3ObjectStoreOptions) {
    const { bucket, prefix, endpoint, credentials } = options
    const { region = 'us-east-1', pathStyle = endpoint !== undefined } = options
    // Not all that a server says of itself.
    this.#options = { bucket, prefix, endpoint, credentials, region, pathStyle }
    this.#client = new S3Client({
      region,
      forcePathStyle: pathStyle,
      ...(endpoint === undefined ? {} : { endpoint, requestChecksumCalculation: 'WHEN_REQUIRED' }),
      ...(credentials === undefined ? {} : { credentials }),
    })
  }

  async makeBucket(): Promise<void> {
    const { bucket } = this.#options
    await this.#client
      .send(new HeadBucketCommand({ Bucket: bucket }))
      .catch(() => this.#client.send(new CreateBucketCommand({ Bucket: bucket })))
  }

  async abilities(): Promise<Abilities> {
    const target = {
      Bucket: this.#options.bucket,
      Key: `${this.#options.prefix ?? ''}/abilities/${randomUUID()}`,
    }
    const Body = Buffer.from('x')
    await this.#client.send(new PutObjectCommand({ ...target, Body }))
    const UploadId = await this.#begin(target)
    const part = await this.#client.send(new UploadPartCommand({ ...target, UploadId, PartNumber: 1, Body }))
    const MultipartUpload = { Parts: [{ PartNumber: 1, ETag: part.ETag }] }
    const condition = { ...target, IfNoneMatch: '*' }
    return {
      conditionalPuts: await fails(this.#client.send(new PutObjectCommand({ ...condition, Body }))),
      conditionalCompletion: await fails(
        this.#client.send(new CompleteMultipartUploadCommand({ ...condition, UploadId, MultipartUpload })),
      ),
      listsUploads: !(await fails(
        this.#client.send(new ListMultipartUploadsCommand({ Bucket: target.Bucket })),
      )),
    }
  }

  /** An empty prefix for the contract; what is left there is removed afterwards. */
  subject(abilities: Abilities): StoreUnderTest {
    const prefix = `${this.#options.prefix ?? ''}/contract/${randomUUID()}`.replace(/^\//, '')
    const at = (key: string) => ({ Bucket: this.#options.bucket, Key: `${prefix}/${key}` })
    const { credentials } = this.#options
    const open: StoreUnderTest['open'] = (patience) =>
      new S3ObjectStore({ ...this.#options, prefix, patience })
    return {
      open,
      strandUpload: (key) => this.strand(`${prefix}/${key}`),
      fill: async (key) => {
        await this.#client.send(new PutObjectCommand({ ...at(key), Body: Buffer.from(key) }))
      },
      secrets: [credentials?.secretAccessKey ?? process.env['AWS_SECRET_ACCESS_KEY'] ?? 'no secret'],
      excludesOtherStores: { small: abilities.conditionalPuts, large: abilities.conditionalCompletion },
      endsUploads: abilities.listsUploads,
      dispose: async () => {
        const store = open()
        if (abilities.listsUploads) await store.sweepUploads('', Date.UTC(2100, 0))
        const entries = await collectAll(store.list(''))
        // Not all at once: what waits for a free connection counts as not connected after a while.
        for (let at = 0; at < entries.length; at += PARALLEL_DELETES) {
          const some = entries.slice(at, at + PARALLEL_DELETES)
          await Promise.all(some.map(({ key }) => store.delete(key)))
        }
        await store.close()
      },
    }
  }

  /** Begins an upload that nobody finishes. @param key in the bucket */
  async strand(key: string): Promise<void> {
    const target = { Bucket: this.#options.bucket, Key: key }
    const UploadId = await this.#begin(target)
    const Body = Buffer.from('the first half')
    await this.#client.send(new UploadPartCommand({ ...target, UploadId, PartNumber: 1, Body }))
  }

  close(): void {
    this.#client.destroy()
  }

  async #begin(target: { Bucket: string; Key: string }): Promise<string | undefined> {
    const { UploadId } = await this.#client.send(new CreateMultipartUploadCommand(target))
    return UploadId
  }
}

async function fails(work: Promise<unknown>): Promise<boolean> {
  return work.then(
    () => false,
    () => true,
  )
}

/** The endpoint that the environment names, for suites that run on a real one; undefined where there is none. */
export function s3FromEnvironment(): S3ObjectStoreOptions | undefined {
  const text = process.env['CELLSTORE_TEST_S3_URL']
  if (text === undefined || text === '') return undefined
  const url = new URL(text)
  const pathStyle = url.searchParams.get('path_style')
  return {
    bucket: url.hostname,
    prefix: url.pathname.slice(1),
    endpoint: url.searchParams.get('endpoint') ?? undefined,
    region: url.searchParams.get('region') ?? undefined,
    pathStyle: pathStyle === null ? undefined : pathStyle === 'true',
  }
}
