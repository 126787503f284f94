import { CLOCK, type Clock, systemClock } from '../../../base/clock.ts'
import {
  COUNT,
  checkOptions,
  definedOnly,
  FLAG,
  type Kind,
  maybe,
  type Shape,
  type Some,
  some,
  TEXT,
} from '../../../base/options/option-shapes.ts'
import { CellError } from '../../../errors.ts'
import { PATIENCE, type Patience, SLOWEST_BYTES_PER_SECOND } from '../call-deadline.ts'
import { objectKeyFault } from '../object-key-rules.ts'

/** Settings of an {@link S3ObjectStore}. */
export interface S3ObjectStoreOptions {
  /** The bucket's name. The bucket must exist. */
  bucket: string
  /** Every object's name starts with it and a `/`. Default: no prefix. */
  prefix?: string | undefined
  /**
   * The address of an S3 that is not Amazon's, such as `http://127.0.0.1:7480`. Default: AWS_ENDPOINT_URL_S3 or AWS_ENDPOINT_URL,
   * and otherwise Amazon's for the region.
   */
  endpoint?: string | undefined
  /** Default: `us-east-1` with an `endpoint`, otherwise from the environment (AWS_REGION, or without an endpoint the profile). */
  region?: string | undefined
  /** Whether URLs name the bucket in the path instead of in the host name. Default: true with an `endpoint`. */
  pathStyle?: boolean | undefined
  /** Default: from the places that AWS's tools use: environment, profile, instance. */
  credentials?: S3Credentials | undefined
  /**
   * Bytes. One request sends an object up to this size; larger objects are sent in parts of this size. Default 8,388,608
   * (8 MiB), at least 5,242,880 (5 MiB).
   */
  partSizeBytes?: number | undefined
  /** The number of parts of one object that are sent at the same time. Each takes memory. Default 4. */
  concurrency?: number | undefined
  /** How long calls may take and how often requests are repeated. */
  patience?: Some<S3Patience> | undefined
  /** Default: the system's clock. Tests inject another one. */
  clock?: Clock | undefined
}

/** Fixed credentials for S3. */
export interface S3Credentials {
  accessKeyId: string
  secretAccessKey: string
  sessionToken?: string
}

/**
 * How long a call to S3 and its requests may take. Defaults of the inherited limits: `deadlineMs` 120,000 ms,
 * `slowestBytesPerSecond` 131,072 (128 KiB/s).
 */
export interface S3Patience extends Patience {
  /** The longest wait for a connection, in milliseconds. Default 5,000 ms. */
  connectMs: number
  /**
   * The longest wait from the start of a request to the headers of its answer, in milliseconds, without the time for its
   * bytes. Default 60,000 ms.
   */
  requestMs: number
  /** The longest wait for the next bytes of a body, in milliseconds. Default 30,000 ms. */
  idleMs: number
  /** How often a request is sent, or the rest of a broken body is asked for, before the call fails. Default 4. */
  attempts: number
}

export interface S3Settings {
  readonly bucket: string
  /** Empty, or with a `/` at the end. */
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
/** S3's own limit for every part except the last. */
const PART_SIZE_MIN = 5 * MIB
const DEFAULT_PATIENCE: S3Patience = {
  deadlineMs: 120_000,
  slowestBytesPerSecond: SLOWEST_BYTES_PER_SECOND,
  connectMs: 5_000,
  requestMs: 60_000,
  idleMs: 30_000,
  attempts: 4,
}

/** More forms than ours: the AWS SDK takes functions that provide them, and names of their own. */
const CREDENTIALS: Kind<S3Credentials> = {
  what: 'an object with accessKeyId and secretAccessKey',
  fits: (value) => (typeof value === 'object' && value !== null) || typeof value === 'function',
  secret: true,
}

const BUCKET: Shape<S3ObjectStoreOptions> = {
  bucket: TEXT,
  prefix: maybe(TEXT),
  endpoint: maybe(TEXT),
  region: maybe(TEXT),
  pathStyle: maybe(FLAG),
  credentials: maybe(CREDENTIALS),
  partSizeBytes: maybe(COUNT),
  concurrency: maybe(COUNT),
  patience: maybe(
    some<S3Patience>({ ...PATIENCE, connectMs: COUNT, requestMs: COUNT, idleMs: COUNT, attempts: COUNT }),
  ),
  clock: maybe(CLOCK),
}

/**
 * Checks the options and adds the defaults.
 *
 * @throws `invalid_setting`
 */
export function s3Settings(options: S3ObjectStoreOptions): S3Settings {
  checkOptions(options, BUCKET, { code: 'invalid_setting' })
  const { bucket, credentials, partSizeBytes = 8 * MIB, concurrency = 4 } = options
  const { endpoint, region } = options.endpoint === undefined ? fromEnvironment(options) : options
  const prefix = (options.prefix ?? '').replace(/^\/+|\/+$/g, '')
  if (typeof bucket !== 'string' || !/^[A-Za-z0-9][A-Za-z0-9._-]{1,62}$/.test(bucket))
    throw invalid(
      'The bucket name is not valid. It has 2 to 63 letters, digits, dots, hyphens or underscores, and starts with a letter or digit.',
    )
  const prefixFault = prefix === '' ? undefined : objectKeyFault(prefix)
  if (prefixFault !== undefined) throw invalid(`The prefix of the object store is not valid: ${prefixFault}.`)
  if (endpoint !== undefined) checkEndpoint(endpoint)
  if (partSizeBytes < PART_SIZE_MIN)
    throw invalid(`partSizeBytes must be a whole number of at least ${PART_SIZE_MIN}.`)
  return {
    bucket,
    prefix: prefix === '' ? '' : `${prefix}/`,
    endpoint,
    region: region ?? (endpoint === undefined ? undefined : 'us-east-1'),
    pathStyle: options.pathStyle ?? endpoint !== undefined,
    credentials,
    partSizeBytes,
    concurrency,
    patience: { ...DEFAULT_PATIENCE, ...definedOnly(options.patience ?? {}) },
    clock: options.clock ?? systemClock,
  }
}

/**
 * With the endpoint of AWS's variables. AWS's client would find it by itself, and take it for Amazon's: with checksums, and with
 * the bucket in the host name.
 */
function fromEnvironment({
  region,
}: S3ObjectStoreOptions): Pick<S3ObjectStoreOptions, 'endpoint' | 'region'> {
  const { env } = process
  const isIgnored = env['AWS_IGNORE_CONFIGURED_ENDPOINT_URLS']?.toLowerCase() === 'true'
  const name = ['AWS_ENDPOINT_URL_S3', 'AWS_ENDPOINT_URL'].find((variable) => env[variable])
  if (isIgnored || name === undefined) return { region }
  const endpoint = env[name] as string
  checkEndpoint(endpoint, name)
  return { endpoint, region: region ?? env['AWS_REGION'] }
}

/** The URL that opens the same store again. It holds no credentials. */
export function s3Url({ bucket, prefix, endpoint, region, pathStyle }: S3Settings): string {
  const query = new URLSearchParams()
  if (endpoint !== undefined) query.set('endpoint', endpoint)
  if (region !== undefined) query.set('region', region)
  if (pathStyle !== (endpoint !== undefined)) query.set('path_style', String(pathStyle))
  const path = prefix.split('/').map(encodeURIComponent).join('/').replace(/\/$/, '')
  return `s3://${bucket}${path === '' ? '' : `/${path}`}${query.size === 0 ? '' : `?${query}`}`
}

/** Settings of AWS's client that bound every wait and avoid features that only Amazon's S3 understands. */
export function clientSettings({ endpoint, region, pathStyle, credentials, patience }: S3Settings) {
  return {
    // By default the client sends checksums that many other endpoints refuse.
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
    // With this header every part would take its own connection, and wait for an endpoint that never says "continue".
    expectContinueHeader: false,
    requestHandler: {
      connectionTimeout: patience.connectMs,
      requestTimeout: patience.requestMs,
      // Without this, the timeout only logs a line.
      throwOnRequestTimeout: true,
      logger: silent,
    },
  }
}

/** For the client's remarks on its own settings. Failures are thrown. */
const silent = { trace() {}, debug() {}, info() {}, warn() {}, error() {} }

function checkEndpoint(endpoint: string, name = 'The endpoint'): void {
  const url = URL.canParse(endpoint) ? new URL(endpoint) : undefined
  if (url === undefined || !/^https?:$/.test(url.protocol) || url.search !== '' || url.hash !== '') {
    throw invalid(
      `${name} must be an http:// or https:// address without parameters, such as http://127.0.0.1:7480.`,
    )
  }
  if (url.username !== '' || url.password !== '') {
    throw invalid(
      `${name} must not hold credentials. Set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY instead.`,
    )
  }
}

function invalid(message: string): CellError {
  return new CellError('invalid_setting', message)
}
