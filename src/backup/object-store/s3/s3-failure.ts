import { CellError, type CellErrorCode } from '../../../errors.ts'

/** The HTTP status behind a failed request, or undefined if there was no answer. Takes what {@link s3Failure} made, too. */
export function s3Status(error: unknown): number | undefined {
  const metadata = member(error instanceof CellError ? error.cause : error, '$metadata')
  const status = member(metadata, 'httpStatusCode')
  return typeof status === 'number' ? status : undefined
}

/** S3's name of the failure, such as `NoSuchKey`; or Node's, such as `TimeoutError`. Takes a failure that was explained, too. */
export function s3ErrorName(error: unknown): string {
  const name = member(error instanceof CellError ? error.cause : error, 'name')
  return typeof name === 'string' && /^[A-Za-z0-9]{1,60}$/.test(name) ? name : ''
}

/**
 * What a failed S3 request means to users of the store: `object_store_unavailable` where trying again may help,
 * `object_store_error` where somebody has to look, with what to look at; `object_exists` for a condition that failed.
 * The message holds nothing of the request, and so no credential.
 */
export function s3Failure(error: unknown): CellError {
  if (error instanceof CellError) return error
  const [code, message] =
    explainName(s3ErrorName(error)) ??
    explainStatus(s3Status(error), s3ErrorName(error)) ??
    explainNoAnswer(error)
  return new CellError(code, message, { cause: error })
}

type Explanation = [CellErrorCode, string]

function explainName(name: string): Explanation | undefined {
  switch (name) {
    case 'NoSuchBucket':
    case 'InvalidBucketName':
      return [
        'object_store_error',
        'The bucket does not exist: check its name, the endpoint and the region, or create it.',
      ]
    case 'InvalidAccessKeyId':
    case 'SignatureDoesNotMatch':
    case 'InvalidToken':
    case 'ExpiredToken':
      return [
        'object_store_error',
        'The object store does not accept the credentials: check AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN.',
      ]
    case 'CredentialsProviderError':
      return [
        'object_store_error',
        'No credentials for the object store were found: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE.',
      ]
    case 'RequestTimeTooSkewed':
      return [
        'object_store_error',
        "This machine's clock differs too much from the object store's: set it right.",
      ]
    case 'PermanentRedirect':
    case 'TemporaryRedirect':
    case 'AuthorizationHeaderMalformed':
      return ['object_store_error', 'The bucket is in another region: check the region and the endpoint.']
    case 'PreconditionFailed':
      return ['object_exists', 'There is an object of this key already.']
    case 'ConditionalRequestConflict':
    case 'OperationAborted':
      return ['object_store_unavailable', 'The same object is being stored by somebody else.']
    case 'SlowDown':
      return ['object_store_unavailable', 'The object store asks for fewer requests (SlowDown).']
    case 'TimeoutError':
    case 'RequestTimeout':
      return ['object_store_unavailable', 'The object store did not answer in time.']
    default:
      return undefined
  }
}

function explainStatus(status: number | undefined, name: string): Explanation | undefined {
  if (status === undefined) return undefined
  const answer = `${status}${name === '' ? '' : ` ${name}`}`
  // MinIO of old answers a failed `If-None-Match: *` with 304.
  if (status === 412 || status === 304) return ['object_exists', 'There is an object of this key already.']
  if (status === 403 || status === 401) {
    return [
      'object_store_error',
      `The object store refused access (${answer}): check that the credentials may list the bucket, and read, write and delete under the prefix.`,
    ]
  }
  if (status === 501 || status === 405) {
    return ['object_store_error', `The object store does not implement this request (${answer}).`]
  }
  if (status === 301 || status === 307) {
    return ['object_store_error', 'The bucket is in another region: check the region and the endpoint.']
  }
  if (status >= 500 || status === 429 || status === 408) {
    return ['object_store_unavailable', `The object store can not serve the request now (${answer}).`]
  }
  return ['object_store_error', `The object store answered with an error (${answer}).`]
}

function explainNoAnswer(error: unknown): Explanation {
  const code = member(error, 'code')
  if (typeof code !== 'string') {
    return member(error, 'message') === 'Region is missing'
      ? ['object_store_error', 'The region of the bucket is not known: set it in the URL or as AWS_REGION.']
      : ['object_store_error', "The object store's answer could not be understood."]
  }
  if (/CERT|TLS|SSL|SELF_SIGNED|UNABLE_TO/.test(code)) {
    return ['object_store_error', `The certificate of the object store is not trusted (${code}).`]
  }
  if (code.startsWith('HPE_'))
    return ['object_store_error', `The object store does not speak HTTP (${code}).`]
  return ['object_store_unavailable', `The object store could not be reached (${code}).`]
}

function member(value: unknown, name: string): unknown {
  return typeof value === 'object' && value !== null ? Reflect.get(value, name) : undefined
}
