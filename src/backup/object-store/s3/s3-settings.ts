import { type Clock, systemClock } from '../../../base/clock.ts'
import { CellError } from '../../../errors.ts'
import type { Patience } from '../call-deadline.ts'
import { isObjectKey } from '../object-key-rules.ts'

export interface S3ObjectStoreOptions {
  bucket: string
  /** What every object's name begins with, before a `/`. Default none. */
  prefix?: string | undefined
  /** Address of an S3 that is not Amazon's, such as `http://127.0.0.1:7480`. */
  endpoint?: string | undefined
  /** Default from the environment (AWS_REGION, profile); with an endpoint of your own, `us-east-1`. */
  region?: string | undefined
  /** Bucket in the path instead of in the worker name. Default true with an endpoint of your own. */
  pathStyle?: boolean | undefined
  /** Default: where AWS's tools look: environment, profile, instance. */
  credentials?: S3Credentials | undefined
  /** Objects up to this size are sent at once, larger ones in parts of it. Default 8 MiB, at least 5 MiB. */
  partSizeBytes?: number | undefined
  /** Parts of one object that are sent at a time; each is held in memory. Default 4. */
  concurrency?: number | undefined
  patience?: Partial<S3Patience> | undefined
  clock?: Clock | undefined
}

export interface S3Credentials {
  accessKeyId: string
  secretAccessKey: string
  sessionToken?: string
}

export interface S3Patience extends Patience {
  /** Longest wait for a connection, in milliseconds. Default 5 s. */
  connectMs: number
  /** Longest wait from a request's beginning to the headers of its answer, beside what its bytes need. Default 60,000 ms. */
  requestMs: number
  /** Longest wait for the next bytes of a body, in milliseconds. Default 30 s. */
  idleMs: number
  /** How often a request is sent, and a body that breaks off asked for again, before it counts as failed. Default 4. */
  attempts: number
}

export interface S3Settings {
  readonly bucket: string
  /** Empty, or ending in `/`. */
  readonly prefix: string
  readonly endpoint: string | undefined
  readonly region: string | undefined
  readonly pathStyle: boolean
  readonly credentials: S3Credentials | undefined
  readonly partSizeBytes: number
  readonly concurrency: number
  readonly patience: S3Patience
  readonly clock: Clock
}

const MIB = 1024 * 1024
/** S3's own bound for every part but the last. */
const PART_SIZE_MIN = 5 * MIB
const PATIENCE: S3Patience = {
  deadlineMs: 120_000,
  slowestBytesPerSecond: MIB / 8,
  connectMs: 5_000,
  requestMs: 60_000,
  idleMs: 30_000,
  attempts: 4,
}

/** @throws `invalid_setting` */
export function s3Settings(options: S3ObjectStoreOptions): S3Settings {
  const { bucket, endpoint, region, credentials, partSizeBytes = 8 * MIB, concurrency = 4 } = options
  const prefix = (options.prefix ?? '').replace(/^\/+|\/+$/g, '')
  if (!/^[A-Za-z0-9][A-Za-z0-9._-]{1,62}$/.test(bucket)) throw invalid('The name of the bucket is not valid.')
  if (prefix !== '' && !isObjectKey(prefix)) throw invalid('The prefix of the object store is not valid.')
  if (endpoint !== undefined) checkEndpoint(endpoint)
  if (!Number.isSafeInteger(partSizeBytes) || partSizeBytes < PART_SIZE_MIN) {
    throw invalid(`partSizeBytes has to be a whole number, at least ${PART_SIZE_MIN}.`)
  }
  if (!Number.isSafeInteger(concurrency) || concurrency < 1) {
    throw invalid('concurrency has to be a whole number, at least 1.')
  }
  return {
    bucket,
    prefix: prefix === '' ? '' : `${prefix}/`,
    endpoint,
    region: region ?? (endpoint === undefined ? undefined : 'us-east-1'),
    pathStyle: options.pathStyle ?? endpoint !== undefined,
    credentials,
    partSizeBytes,
    concurrency,
    patience: { ...PATIENCE, ...options.patience },
    clock: options.clock ?? systemClock,
  }
}

/** The URL that makes the same store again, given the same credentials, which are not in it. */
export function s3Url({ bucket, prefix, endpoint, region, pathStyle }: S3Settings): string {
  const query = new URLSearchParams()
  if (endpoint !== undefined) query.set('endpoint', endpoint)
  if (region !== undefined) query.set('region', region)
  if (pathStyle !== (endpoint !== undefined)) query.set('path_style', String(pathStyle))
  const path = prefix.split('/').map(encodeURIComponent).join('/').replace(/\/$/, '')
  return `s3://${bucket}${path === '' ? '' : `/${path}`}${query.size === 0 ? '' : `?${query}`}`
}

/** What Amazon's client is told, so that it neither waits for ever nor speaks what only Amazon understands. */
export function clientSettings({ endpoint, region, pathStyle, credentials, patience }: S3Settings) {
  return {
    // By default the client sends checksums that many endpoints but Amazon's refuse.
    ...(endpoint === undefined
      ? {}
      : {
          endpoint,
          requestChecksumCalculation: 'WHEN_REQUIRED' as const,
          responseChecksumValidation: 'WHEN_REQUIRED' as const,
        }),
    ...(region === undefined ? {} : { region }),
    ...(credentials === undefined ? {} : { credentials }),
    forcePathStyle: pathStyle,
    maxAttempts: patience.attempts,
    retryMode: 'standard',
    // With it every part would get a connection of its own, and wait out requestTimeout where nobody says "continue".
    expectContinueHeader: false,
    requestHandler: {
      connectionTimeout: patience.connectMs,
      requestTimeout: patience.requestMs,
      // Else the timeout is a line in the log, no more.
      throwOnRequestTimeout: true,
      logger: silent,
    },
  }
}

/** The client's remarks on its own settings; what fails is thrown. */
const silent = { trace() {}, debug() {}, info() {}, warn() {}, error() {} }

function checkEndpoint(endpoint: string): void {
  const url = URL.canParse(endpoint) ? new URL(endpoint) : undefined
  if (url === undefined || !/^https?:$/.test(url.protocol) || url.search !== '' || url.hash !== '') {
    throw invalid('The endpoint has to be an http:// or https:// address, such as http://127.0.0.1:7480.')
  }
  if (url.username !== '' || url.password !== '') {
    throw invalid('The endpoint must not hold credentials: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY.')
  }
}

function invalid(message: string): CellError {
  return new CellError('invalid_setting', message)
}
